# SPDX-License-Identifier: Apache-2.0
# The image of Constrictor: `make image`, `docker build -t constrictor .`, or compose.yaml, which also has the flags.
#   --build-arg BASE=IMAGE      the base of both stages: Debian 12 or 13, Ubuntu 22.04 or 24.04, also one made without a
#                               registry (docs/deploy.md)
#   --target data               the image with the data stack, imported ahead of runs; --build-arg PACKAGES="..." names it
# It needs flags of the engine to make boxes; without them it stops and names each one.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
COPY tools/setup tools/progress /src/tools/
RUN cd /src && tools/setup build && rm -rf /var/lib/apt/lists/*
COPY . /src
ARG SOURCE_DATE_EPOCH=1767225600
RUN cd /src && SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH tools/static /out

FROM ${BASE} AS base
# python3-pip-whl is the wheel of pip: enough for --package and environments, and a tenth of python3-pip.
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ca-certificates python3 python3-pip-whl \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* \
    && useradd --system --user-group --uid 10001 --home-dir /var/lib/constrictor --create-home --shell /usr/sbin/nologin executor
COPY --from=build /out/root /usr/lib/constrictor
COPY dist/seccomp.json dist/image/health dist/image/sbom /usr/lib/constrictor/
RUN ln -s ../lib/constrictor/constrictor /usr/bin/constrictor \
    && constrictor --version \
    && /usr/lib/constrictor/sbom >/usr/lib/constrictor/sbom.spdx.json
ENV CONSTRICTOR_HOST=0.0.0.0 CONSTRICTOR_PORT=8000 CONSTRICTOR_STATE=/var/lib/constrictor
LABEL org.opencontainers.image.title="Constrictor" \
    org.opencontainers.image.description="Runs Python behind a kernel wall: fresh, isolated, without network, with limits" \
    org.opencontainers.image.source="https://github.com/constrictor-sandbox/constrictor" \
    org.opencontainers.image.documentation="https://github.com/constrictor-sandbox/constrictor/blob/main/docs/deploy.md" \
    org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 8000
VOLUME /var/lib/constrictor
WORKDIR /var/lib/constrictor
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --start-interval=1s CMD ["/usr/lib/constrictor/health"]
ENTRYPOINT ["constrictor"]
CMD ["serve"]

# A virtual environment of its own, whose packages all code has; the zygote imports them once, before the first run.
FROM base AS stack
ARG PACKAGES="numpy pandas matplotlib scipy scikit-learn pillow openpyxl"
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends python3-venv \
    && python3 -m venv /opt/data && /opt/data/bin/pip --no-cache-dir --quiet install $PACKAGES

FROM base AS data
COPY --from=stack /opt/data /opt/data
RUN /usr/lib/constrictor/sbom /opt/data >/usr/lib/constrictor/sbom.spdx.json
ENV CONSTRICTOR_PYTHON=/opt/data/bin/python3 CONSTRICTOR_PRELOAD=numpy,pandas,matplotlib.pyplot
USER 10001

FROM base
USER 10001
