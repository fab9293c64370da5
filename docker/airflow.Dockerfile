# Airflow with Tidegate's provider and gates, for docker/compose.yaml: scheduler, triggerer, DAG processor and API server run from it.
# Built by `make images`.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY locks/airflow.lock install.sh /build/
RUN sh /build/install.sh /build/airflow.lock
COPY sbom.py /build/
COPY wheels/ /build/wheels/
RUN sh /build/install.sh

FROM ${BASE}
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Airflow with Tidegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --user-group --create-home --home-dir /opt/airflow --shell /usr/sbin/nologin airflow \
    && install -d -o airflow -g airflow /models /run/tidegate /opt/airflow/logs /opt/airflow/state
COPY --from=build /opt/tidegate /opt/tidegate
ENV PATH=/opt/tidegate/bin:$PATH PYTHONUNBUFFERED=1 AIRFLOW_HOME=/opt/airflow AIRFLOW__CORE__LOAD_EXAMPLES=False
USER 10001:10001
WORKDIR /opt/airflow
EXPOSE 8080
ENTRYPOINT ["airflow"]
CMD ["api-server"]
