# etcd from Debian's packages, for a fleet: docker/compose-fleet.yaml and docker/kubernetes/fleet. Built by `make images`.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="etcd for Tidegate" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends etcd-client etcd-server \
    && rm -rf /var/lib/apt/lists/* /var/lib/etcd \
    && usermod --uid 10001 etcd && install -d -o etcd -g etcd /var/lib/etcd
ENV ETCDCTL_API=3
USER etcd
VOLUME /var/lib/etcd
EXPOSE 2379 2380
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["etcdctl", "endpoint", "health"]
ENTRYPOINT ["etcd"]
