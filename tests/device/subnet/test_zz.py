from helpers.net.two_leaves import LEAF1
from emu.device.engine import lifecycle
from layouts.enums import PortState
def test(nodes, subnet):
    far = lambda: subnet.cables.nodes[LEAF1].ports[1].info.port_state
    print(nodes[1].hca.ib.state, far())
    lifecycle.set_link(nodes[1].hca, up=False)
    print(nodes[1].hca.ib.state, far())
    lifecycle.set_link(nodes[1].hca, up=True)
    print(nodes[1].hca.ib.state, far())
    lifecycle.set_admin(nodes[1].hca, up=False)
    print(nodes[1].hca.ib.state, far())
    lifecycle.set_admin(nodes[1].hca, up=True)
    print(nodes[1].hca.ib.state, far())
def test2(nodes, subnet, manager):
    manager.sweep()
    test(nodes, subnet)
