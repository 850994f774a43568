package hardware

import "github.com/norn-scheduler/norn/cluster"

// link finds out how the devices are linked with each other: by what the driver
// tells, and else by their NUMA nodes.
func (m *Machine) link(t tree) {
	n := len(m.Devices)
	if n < 2 {
		return
	}
	m.Links = cluster.NewLinks(n)
	direct := t.amdLinks()
	for i := range n {
		for j := range i {
			m.Links.Connect(j, i, m.between(&m.Devices[j], &m.Devices[i], direct))
		}
	}
}

// between is the link between two devices; a speed of 0 is the typical one.
func (m *Machine) between(a, b *Device, direct map[[2]string]float64) cluster.Link {
	if a.Kind == AMD && b.Kind == AMD {
		if gbps, ok := direct[[2]string{a.PCI, b.PCI}]; ok {
			return cluster.Link{Class: cluster.NVLink, GBps: gbps}
		}
	}
	p, okA := a.probe.(*nvidiaProbe)
	q, okB := b.probe.(*nvidiaProbe)
	if okA && okB && p.handle != 0 && q.handle != 0 {
		if l, known := m.nvml.path(p.handle, q.handle); known {
			return l
		}
	}
	if a.NUMA >= 0 && a.NUMA == b.NUMA {
		return cluster.Link{Class: cluster.Socket}
	}
	return cluster.Link{Class: cluster.CrossSocket}
}
