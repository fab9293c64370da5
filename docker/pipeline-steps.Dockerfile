# The steps of a release and of the skew watch, for Kubeflow's components and Kubernetes jobs: every gate, with ONNX, scikit-learn and
# MLflow. Built by `make images`.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY locks/pipeline-steps.lock install.sh /build/
RUN sh /build/install.sh /build/pipeline-steps.lock
COPY sbom.py /build/
COPY wheels/ /build/wheels/
RUN sh /build/install.sh

FROM ${BASE}
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Tidegate steps" \
      org.opencontainers.image.description="Publish, validate, push, canary, promote and skew, as commands and components." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin tidegate \
    && install -d -o tidegate -g tidegate /models /run/tidegate
COPY --from=build /opt/tidegate /opt/tidegate
COPY make_secrets.py /opt/tidegate/share/
ENV PATH=/opt/tidegate/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /home/tidegate
ENTRYPOINT ["tidegate"]
