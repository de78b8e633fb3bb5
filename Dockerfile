# Mooring's image: the plugin, the mounter and the client, with the programs and libraries of Debian 12 that they use. It has
# no shell. packaging/image builds it, see docs/containers.md. `docker build -t mooring .` builds it, too.
ARG BASE=debian:12-slim

# Installs missing packages. A base of packaging/image has them all.
FROM ${BASE} AS build
WORKDIR /source
COPY packaging packaging
RUN packaging/install-deps build run
COPY . .
ARG REVISION=unknown
ARG SOURCE_DATE_EPOCH
RUN if [ "${REVISION}" = unknown ]; then commit=; else commit="${REVISION} ${SOURCE_DATE_EPOCH}"; fi && \
    cmake --preset release -DMOORING_TESTS=OFF -DMOORING_SOURCE_COMMIT="$commit" && \
    cmake --build --preset release --target mooring mooring-mounter mooring-plugin
RUN packaging/image-root build/release/bin /image

# packaging/image --prebuilt uses the lines from here on, with the files of its context.
FROM scratch
COPY --from=build /image/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="mooring" \
      org.opencontainers.image.description="CSI driver for volumes on one Linux node" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="/usr/share/doc/mooring/README.md"
# Nomad sets CSI_ENDPOINT to the same value. docs/running.md lists the other variables.
ENV PATH=/usr/sbin:/usr/bin \
    CSI_ENDPOINT=unix:///csi/csi.sock
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["mooring", "csi", "info", "--timeout", "4"]
ENTRYPOINT ["mooring-plugin"]
