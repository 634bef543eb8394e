"""Attributes of queue pairs: the honest ones of every driver pass, one wrong value is refused.

The adapter looks at what a transition takes, and at nothing else in the context that it carries.
"""

import pytest

from emu.driver.nodes.roce import MODEL as ROCE_MODEL
from emu.driver.nodes.roce import RoceNode
from emu.driver.verbs.parts import INIT, RTR, RTS, Parts
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpState, QpType, RqType

S = QpState
RC, UC, UD, XRC = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
DCI, QP0, QP1, UMR = QpType.DCI, QpType.QP0, QpType.QP1, QpType.REG_UMR

# Bits of opt_param_mask, qp.h: mlx5_qp_optpar.
RRE, RAE, RWE, PKEY_INDEX, Q_KEY, RNR_TIMEOUT, PM_STATE = (1 << n for n in (1, 2, 3, 4, 5, 6, 10))
DRAIN_SIGERR, LAG_TX_AFF, PRI_PORT, COUNTER_SET = (1 << n for n in (11, 15, 16, 25))
ACCESS = RRE | RAE | RWE
UDP_SPORT = 1 << 2
"""Of opt_param_mask_95_32."""

# Of the kernels 6.1, 6.12 and 7.2 (qp.c: opt_mask), without what hangs on absent features:
# ALT_ADDR_PATH on apm, PP_INDEX on packet_pacing_req_*. A service without a row sends no bit.
KERNEL = {
    Op.INIT2INIT_QP: {
        RC: ACCESS | PKEY_INDEX | PRI_PORT | LAG_TX_AFF,
        UC: RWE | PKEY_INDEX | PRI_PORT | LAG_TX_AFF,
        UD: PKEY_INDEX | Q_KEY | PRI_PORT,
        XRC: ACCESS | PKEY_INDEX | PRI_PORT | LAG_TX_AFF,
    },
    Op.INIT2RTR_QP: {
        RC: ACCESS | PKEY_INDEX | LAG_TX_AFF,
        UC: RWE | PKEY_INDEX | LAG_TX_AFF,
        UD: PKEY_INDEX | Q_KEY,
        XRC: ACCESS | PKEY_INDEX | LAG_TX_AFF,
    },
    Op.RTR2RTS_QP: {
        RC: ACCESS | PM_STATE | RNR_TIMEOUT,
        UC: RWE | PM_STATE,
        UD: Q_KEY,
        XRC: ACCESS | PM_STATE | RNR_TIMEOUT,
    },
    Op.RTS2RTS_QP: {
        RC: ACCESS | RNR_TIMEOUT | PM_STATE,
        UC: RWE | PM_STATE,
        UD: Q_KEY,
        XRC: ACCESS | RNR_TIMEOUT | PM_STATE,
    },
    Op.SQERR2RTS_QP: {
        UD: Q_KEY, UC: RWE, RC: RNR_TIMEOUT | ACCESS, XRC: RNR_TIMEOUT | ACCESS,
    },
    Op.SQD_RTS_QP: {UD: Q_KEY, UC: RWE, RC: RNR_TIMEOUT | ACCESS},
}  # fmt: skip

PROGRAMS = {
    "UCX, a DC initiator": (Op.INIT2RTR_QP, DCI, RAE | LAG_TX_AFF),
    "UCX, RC": (Op.INIT2RTR_QP, RC, ACCESS | LAG_TX_AFF),
    "mlx5dv_modify_qp_lag_port": (Op.RTS2RTS_QP, UD, LAG_TX_AFF),
    "a counter bound to a UD queue pair": (Op.RTS2RTS_QP, UD, COUNTER_SET),
    "a signature pipeline": (Op.INIT2INIT_QP, RC, DRAIN_SIGERR),
    "iPXE, to RTR": (Op.INIT2RTR_QP, UD, RRE | RWE | PKEY_INDEX | Q_KEY),
    "iPXE, to RTS": (Op.RTR2RTS_QP, UD, RRE | RWE | Q_KEY | RNR_TIMEOUT | PM_STATE),
    "an FPGA's": (Op.RTR2RTS_QP, RC, RNR_TIMEOUT),
}
"""What others select than mlx5_ib."""

SOURCES = {
    Op.RST2INIT_QP: S.RST, Op.INIT2INIT_QP: S.INIT, Op.INIT2RTR_QP: S.INIT,
    Op.RTR2RTS_QP: S.RTR, Op.RTS2RTS_QP: S.RTS, Op.SQERR2RTS_QP: S.SQER, Op.SQD_RTS_QP: S.SQD,
}  # fmt: skip
REQUIRED = {Op.RST2INIT_QP: INIT, Op.INIT2RTR_QP: RTR, Op.RTR2RTS_QP: RTS}
CONNECTED = (RC, UC, XRC, DCI)
SERVICES = (RC, UC, UD, XRC, DCI, QP0, QP1, UMR)
PORT = {"primary_address_path": {"vhca_port_num": 1}}


@pytest.fixture
def parts(driver):
    return Parts(driver)


def made(function, driver, parts, service, state):
    """A queue pair of a service in a state, by the attributes that mlx5_ib sends."""
    more = {
        XRC: {"rq_type": RqType.ZERO_LEN_RQ}, DCI: {"rq_type": RqType.ZERO_LEN_RQ},
        UMR: {"rq_type": RqType.ZERO_LEN_RQ},
    }.get(service, {})  # fmt: skip
    if service is XRC:
        more["xrcd"] = driver.must(Op.ALLOC_XRCD).xrcd
    qpn = parts.make(st=service, **more)
    for op in (Op.RST2INIT_QP, Op.INIT2RTR_QP, Op.RTR2RTS_QP):
        if SOURCES[op] < state:
            driver.must(op, qpn=qpn, qpc=honest(op, service))
    function.hca.qps.get(qpn).state = state  # no command leads to SQER and SQD
    return qpn


def honest(op, service):
    """What mlx5_ib puts into the context for a transition (qp.c: __mlx5_ib_modify_qp)."""
    if service in (RC, UC, XRC):
        return REQUIRED.get(op, {})
    if service is DCI:
        return PORT | ({"mtu": 5, "log_msg_max": 30} if op is Op.INIT2RTR_QP else {})
    if service in (QP0, QP1):
        return {"mtu": 1, "log_msg_max": 8, **PORT}
    return {"mtu": 5, "log_msg_max": 12, "q_key": 0x11, **PORT}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("op", SOURCES, ids=lambda op: op.name)
def test_masks_of_the_kernels(function, driver, parts, op, service):
    """Each bit of the row by itself, and all together."""
    row = KERNEL.get(op, {}).get(service, 0)
    masks = {0, row, *(1 << n for n in range(32) if row >> n & 1)}
    for mask in masks:
        qpn = made(function, driver, parts, service, SOURCES[op])
        qpc = {**honest(op, service), "primary_address_path": {"vhca_port_num": 1}}
        if op in REQUIRED and service in (RC, UC, XRC):
            qpc = REQUIRED[op]
        driver.must(op, qpn=qpn, qpc=qpc, opt_param_mask=mask)


@pytest.mark.parametrize("program", PROGRAMS)
def test_masks_of_programs(function, driver, parts, program):
    op, service, mask = PROGRAMS[program]
    qpn = made(function, driver, parts, service, SOURCES[op])
    driver.must(op, qpn=qpn, qpc=honest(op, service), opt_param_mask=mask)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_context_with_nothing_but_a_port(driver, function, parts, service):
    """mlx5_core's IPoIB and iPXE send datagram queue pairs on with a context of zeros."""
    qpn = made(function, driver, parts, service, S.RST)
    driver.must(Op.RST2INIT_QP, qpn=qpn, qpc=PORT)
    needs_mtu = {"mtu": 1} if service in CONNECTED else {}
    driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc=needs_mtu)
    driver.must(Op.RTR2RTS_QP, qpn=qpn)


def in_row(op, bit):
    masks = (*KERNEL.get(op, {}).values(), *(row[2] for row in PROGRAMS.values() if row[0] is op))
    return any(mask >> bit & 1 for mask in masks)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("op", SOURCES, ids=lambda op: op.name)
def test_bits_that_the_transition_has_not(function, driver, parts, refused, op, service):
    qpn = made(function, driver, parts, service, SOURCES[op])
    qpc = honest(op, service)
    for bit in range(32):
        if not in_row(op, bit):
            refused(Status.BAD_PARAM_ERR, op, qpn=qpn, qpc=qpc, opt_param_mask=1 << bit)
            refused(Status.BAD_PARAM_ERR, op, qpn=qpn, qpc=qpc, opt_param_mask=1 << bit | RRE)


@pytest.mark.parametrize("bit", sorted(set(range(64)) - {0, 2}))
def test_options_above_31_that_nobody_built(parts, refused, bit):
    qpn = parts.make(S.RTS)
    refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, qpn=qpn, opt_param_mask_95_32=1 << bit)


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 63])
def test_memory_to_memory_operations_are_not_offered(parts, refused, bit):
    """libmlx5's qp_enable_mmo: it would take OK for an answer."""
    qpn = parts.make(S.INIT)
    refused(Status.BAD_PARAM_ERR, Op.INIT2INIT_QP, qpn=qpn, opt_param_mask_95_32=1 << bit)


def with_one(op, service, name, value):
    """The honest context of a transition, with one other value; a path's field has a dot."""
    qpc = {**honest(op, service)}
    if name.startswith("path."):
        path = dict(qpc.get("primary_address_path", {}))
        qpc["primary_address_path"] = path | {name.removeprefix("path."): value}
    else:
        qpc[name] = value
    return qpc


WRONG = [
    *((Op.RST2INIT_QP, service, "path.vhca_port_num", port)
      for service in SERVICES for port in (0, 2, 255)),
    *((Op.RST2INIT_QP, service, "path.pkey_index", index)
      for service in SERVICES for index in (128, 500, 0xFFFF)),
    *((Op.RST2INIT_QP, service, "mtu", code) for service in SERVICES for code in (6, 7)),
    *((Op.INIT2RTR_QP, service, "mtu", code)
      for service in SERVICES for code in (0, 6, 7) if code or service in CONNECTED),
    *((op, service, "log_msg_max", 31)
      for op in (Op.RST2INIT_QP, Op.INIT2RTR_QP) for service in SERVICES),
    *((op, service, name, log)
      for op, name in ((Op.INIT2RTR_QP, "log_rra_max"), (Op.RTR2RTS_QP, "log_sra_max"))
      for service in (RC, XRC, DCI) for log in (5, 7)),
    *((Op.INIT2RTR_QP, service, "path.src_addr_index", index)
      for service in (RC, UC, XRC) for index in (1, 7, 8, 255)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "service", "name", "value"),
    WRONG,
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_one_wrong_value(function, driver, parts, refused, op, service, name, value):
    qpn = made(function, driver, parts, service, SOURCES[op])
    refused(Status.BAD_PARAM_ERR, op, qpn=qpn, qpc=with_one(op, service, name, value))
    driver.must(op, qpn=qpn, qpc=honest(op, service))


@pytest.mark.parametrize(
    ("mask", "path"), [(PRI_PORT, {"vhca_port_num": 2}), (PKEY_INDEX, {"pkey_index": 128})]
)
def test_one_wrong_value_that_a_bit_selects(parts, driver, refused, mask, path):
    qpn = parts.make(S.INIT)
    fields = {"qpn": qpn, "qpc": {"primary_address_path": path}}
    refused(Status.BAD_PARAM_ERR, Op.INIT2INIT_QP, **fields, opt_param_mask=mask)
    driver.must(Op.INIT2INIT_QP, **fields)


NOT_TAKEN = {
    Op.RST2INIT_QP: ("path.src_addr_index", "log_rra_max", "log_sra_max"),
    Op.INIT2INIT_QP: ("path.vhca_port_num", "path.pkey_index", "mtu", "log_msg_max"),
    Op.INIT2RTR_QP: ("path.vhca_port_num", "path.pkey_index", "log_sra_max", "counter_set_id"),
    Op.RTR2RTS_QP: ("path.vhca_port_num", "path.pkey_index", "path.src_addr_index", "mtu",
                    "log_msg_max", "log_rra_max", "counter_set_id"),
    Op.RTS2RTS_QP: ("path.vhca_port_num", "path.src_addr_index", "mtu", "log_sra_max"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "name"), [(op, name) for op, names in NOT_TAKEN.items() for name in names]
)
def test_what_a_transition_does_not_take_may_hold_anything(function, driver, parts, op, name):
    """mlx5_vdpa's INIT2RTR has no port, and the driver's contexts keep what it set before."""
    qpn = made(function, driver, parts, RC, SOURCES[op])
    largest = 31 if name == "log_msg_max" else 7
    driver.must(op, qpn=qpn, qpc=with_one(op, RC, name, largest))


def test_source_gid_without_a_global_route_may_be_anything(parts, driver):
    qpn = parts.make(S.INIT)
    path = {"grh": 0, "src_addr_index": 7}
    driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc={**RTR, "primary_address_path": path})


def test_source_port_of_an_infiniband_path(parts, refused):
    """rdma-core's mlx5dv_modify_qp_udp_sport, where there is no UDP."""
    qpn = parts.make(S.RTS)
    path = {"primary_address_path": {"udp_sport": 55555}}
    refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, qpn=qpn, qpc=path, opt_param_mask_95_32=UDP_SPORT)


class TestRoce:
    """Source and destination of a connection over RoCE (IBTA A17.4)."""

    @pytest.fixture
    def model(self):
        return ROCE_MODEL

    @pytest.fixture
    def node(self, function, driver):
        return RoceNode(function, driver)

    def rtr(self, node, **path):
        return {**RTR, "primary_address_path": node.path_to(node) | path}

    @pytest.mark.parametrize(
        "path",
        [
            {"src_addr_index": 9}, {"src_addr_index": 255},
            {"rgid_rip": bytes(16)}, {"rmac_47_32": 0, "rmac_31_0": 0},
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize("service", [RC, UC, XRC], ids=lambda service: service.name)
    def test_path_that_leads_nowhere(self, function, driver, node, parts, refused, service, path):
        qpn = made(function, driver, parts, service, S.INIT)
        refused(Status.BAD_PARAM_ERR, Op.INIT2RTR_QP, qpn=qpn, qpc=self.rtr(node, **path))
        driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc=self.rtr(node))

    @pytest.mark.parametrize("path", [{"rmac_47_32": 0}, {"rmac_31_0": 0}], ids=str)
    def test_address_that_has_half_of_it_zero(self, driver, node, parts, path):
        qpn = parts.make(S.INIT)
        driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc=self.rtr(node, **path))

    def test_forced_loopback_needs_no_address(self, driver, node, parts):
        """mlx5_vdpa, DPDK and libmlx5's steering set ``fl`` and nothing else."""
        qpn = parts.make(S.INIT)
        driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc={"mtu": 1, "primary_address_path": {"fl": 1}})

    @pytest.mark.parametrize("service", [UD, DCI, QP1], ids=lambda service: service.name)
    def test_datagrams_have_their_path_elsewhere(self, function, driver, node, parts, service):
        qpn = made(function, driver, parts, service, S.INIT)
        driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc={"mtu": 5})
