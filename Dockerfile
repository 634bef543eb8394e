# The emulator and its guest lab on Debian 13; share/guide/container.md has the commands.
# No privileges are needed to build it or to run guests in it. Guests, and the QEMU for them, are made
# on first use: a volume at /var/cache/mlx5emu keeps them.
FROM debian:trixie

ENV DEBIAN_FRONTEND=noninteractive XDG_CACHE_HOME=/var/cache
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mlx5emu
COPY . .
RUN scripts/setup && rm -rf /var/lib/apt/lists/*

ENTRYPOINT ["/opt/mlx5emu/.venv/bin/mlx5emu"]
CMD ["--help"]
