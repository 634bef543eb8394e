"""Named numbers of the PRM: opcodes, statuses, event types, states, one module for each object.

Names are the driver's without their prefix (MLX5_CMD_OP_CREATE_CQ is ``Op.CREATE_CQ``). Source:
mlx5_ifc.h, device.h, driver.h, fs.h, port.h, qp.h, vport.h and mlx5_ib.h of Linux 6.12.
"""
