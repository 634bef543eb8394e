"""What a driver has to do when the adapter misbehaves; mlx5emu's plugin boots the guests."""

import pytest

DOMAIN = (
    "python3 -c 'from pyverbs.device import Context; from pyverbs.pd import PD;"
    ' PD(Context(name="mlx5_0"))\''
)


def test_port_comes_up(mlx5_guest):
    assert "PORT_ACTIVE" in mlx5_guest.run("ibv_devinfo").check().stdout


def test_application_gets_an_error_and_the_next_one_works(mlx5_guest, mlx5_faults):
    mlx5_faults.add(
        point="cmd", action="fail", match={"op": "ALLOC_PD"}, status="NO_RES_ERR", times=1
    )
    failed = mlx5_guest.run(DOMAIN)
    assert failed.status != 0
    assert "Errno: 11" in failed.stderr
    assert mlx5_faults.fired() == 1
    mlx5_guest.run(DOMAIN).check()


@pytest.mark.mlx5(devices=("connectx6-vf",))
def test_temperature_alarm_is_reported(mlx5_guest, mlx5_faults):
    mlx5_faults.load('[[rule]]\npoint = "load"\naction = "health"\nsyndrome = 16\n')
    reporter = "$(devlink dev | grep -o '^pci/[^ ]*[0-9]') reporter fw"
    said = mlx5_guest.run(f"devlink health diagnose {reporter}").check().stdout
    assert "High temperature" in said
