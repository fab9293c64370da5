# The serving engine with ONNX, scikit-learn and MLflow. `make images` builds it; the context is the folder that tools/images.py fills:
# locks/, wheels/ (tidegate and tidegate-native), engine.toml and labels of the build.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY locks/engine.lock install.sh /build/
RUN sh /build/install.sh /build/engine.lock
COPY sbom.py /build/
COPY wheels/ /build/wheels/
RUN sh /build/install.sh

FROM ${BASE}
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Tidegate engine" \
      org.opencontainers.image.description="Serves model versions that a signed verdict admitted: TensorFlow Serving's gRPC and REST." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin tidegate \
    && install -d -o tidegate -g tidegate /models /run/tidegate /var/lib/tidegate /var/log/tidegate
COPY --from=build /opt/tidegate /opt/tidegate
COPY engine.toml compose.toml /etc/tidegate/
ENV PATH=/opt/tidegate/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/tidegate
EXPOSE 8500 8501
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/v2/health/ready', timeout=2)"]
ENTRYPOINT ["tidegate"]
CMD ["serve", "--config", "/etc/tidegate/engine.toml"]
