# PostgreSQL from Debian's packages, for docker/compose.yaml; the databases are made at the first start. Built by `make images`.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="PostgreSQL for Tidegate" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/15/main \
    && usermod --uid 10001 postgres && install -d -o postgres -g postgres /data /run/tidegate
COPY start_postgres.sh /usr/local/bin/start-postgres
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/data/main
USER postgres
EXPOSE 5432
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["pg_isready", "--host=127.0.0.1"]
ENTRYPOINT ["sh", "/usr/local/bin/start-postgres"]
