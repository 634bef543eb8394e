# First process of an interactive guest: a login shell on the console; its end powers off.
export HOME=/root LANG=C.UTF-8 USER=root PS1='guest:\w\$ '
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /run/mlx5emu/config
export TERM="$term"
busybox=/run/mlx5emu/busybox
cd /root
$busybox stty -F /dev/console rows "$rows" cols "$columns"
echo "Leave with exit or Ctrl-D; Ctrl-A x ends QEMU at once."
$busybox setsid $busybox cttyhack /bin/bash -i
exec $busybox poweroff -f
