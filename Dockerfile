# Mooring's image: the plugin, its mount helper and the client that asks after its health, with the programs and libraries
# of Debian 12 that these run, and no shell. packaging/image builds it, see docs/containers.md; so does docker build -t mooring .
ARG BASE=debian:12-slim

# What is missing is installed: on a base that has it already, as packaging/image makes one where none can be pulled, nothing.
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

# From here on packaging/image --prebuilt takes the same lines, with the files from its context.
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
# Nomad sets CSI_ENDPOINT to the same; what else there is to set is in docs/running.md.
ENV PATH=/usr/sbin:/usr/bin \
    CSI_ENDPOINT=unix:///csi/csi.sock
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["mooring", "csi", "info", "--timeout", "4"]
ENTRYPOINT ["mooring-plugin"]
