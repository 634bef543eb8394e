# Written by scripts/gen-view-types from module_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class Lane2ModuleMapping(View):
    rx_lane: int
    tx_lane: int
    module: int

lane_2_module_mapping: Prm[Lane2ModuleMapping]

class PmlpReg(View):
    rxtx: int
    local_port: int
    width: int
    lane0_module_mapping: int
    lane1_module_mapping: int
    lane2_module_mapping: int
    lane3_module_mapping: int

pmlp_reg: Prm[PmlpReg]

class PmaosReg(View):
    module: int
    admin_status: int
    oper_status: int
    ase: int
    ee: int
    e: int

pmaos_reg: Prm[PmaosReg]

class MciaReg(View):
    l: int
    module: int
    status: int
    i2c_device_address: int
    page_number: int
    device_address: int
    size: int
    dwords: Octets

mcia_reg: Prm[MciaReg]

class MtcapReg(View):
    sensor_count: int
    sensor_map: int

mtcap_reg: Prm[MtcapReg]

class MtmpReg(View):
    sensor_index: int
    temperature: int
    mte: int
    mtr: int
    max_temperature: int
    tee: int
    temp_threshold_hi: int
    temp_threshold_lo: int
    sensor_name_hi: int
    sensor_name_lo: int

mtmp_reg: Prm[MtmpReg]
