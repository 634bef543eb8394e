# The emulator and its guest lab on Debian 13. Build once, then for instance:
#   docker run --rm mlx5emu run -- ibv_devinfo -v
# Guests are built on first use; give the cache a volume to keep them:
#   docker run --rm -v mlx5emu-cache:/root/.cache/mlx5emu mlx5emu run -- ibv_devinfo
FROM debian:trixie

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mlx5emu
COPY . .
RUN scripts/setup

ENTRYPOINT ["/opt/mlx5emu/.venv/bin/mlx5emu"]
CMD ["--help"]
