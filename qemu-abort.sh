cd /tmp/archw; . ./env
python -m emu serve --socket /tmp/archw/f0.sock --device connectx6 > serve.log 2>&1 & S=$!
for i in $(seq 100); do [ -S /tmp/archw/f0.sock ] && break; sleep 0.1; done
Q=$(ls -d /root/.cache/mlx5emu/qemu/*ppc*); ls $Q
timeout 10 $Q/qemu-system-ppc64 -nodefaults -display none -machine pseries,memory-backend=memory -object memory-backend-memfd,id=memory,size=512M,share=on -m 512M -serial none -monitor none -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"/tmp/archw/f0.sock"}}' 2>&1 | tail -5
echo "QEMU ${PIPESTATUS[0]}"
kill $S
