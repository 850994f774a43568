package local

import (
	"context"
	"slices"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
)

// Node implements server.Backend.
func (d *Daemon) Node(ctx context.Context) (api.Node, error) {
	var n api.Node
	err := d.Loop.Ask(ctx, func() error {
		n = condition{d}.node()
		return nil
	})
	return n, err
}

func (d condition) node() api.Node {
	m := &d.opt.Machine
	n := api.Node{Health: "up", CPUs: float64(m.Node.CPU) / 1000, Memory: api.Bytes(m.Node.Memory)}
	if d.State().Cluster.Health(0) != cluster.Up {
		n.Health = "drained"
	}
	d.describe(0, &n)
	for p := range d.State().Cluster.Pools() {
		for i := range d.State().Running(cluster.PoolID(p)).All() {
			a := d.State().Alloc(job.ID(i))
			cpus, mem := live.Beside(a)
			n.CPUsAllocated += cpus
			n.MemAllocated += mem
			for _, dev := range d.opt.Machine.devices(a) {
				n.Devices[dev].Jobs = append(n.Devices[dev].Jobs, d.of(job.ID(i)).Key)
			}
		}
	}
	return n
}

// describe fills in what only this machine knows of itself.
func (d condition) describe(_ cluster.NodeID, n *api.Node) bool {
	m := &d.opt.Machine
	n.Name, n.NUMA, n.Isolation, n.Note = m.Name, m.NUMA, m.Isolation, d.health.note()
	n.Disk = api.Disk{Path: d.store.dir, Low: d.health.full.Load()}
	n.Disk.Free, n.Disk.Size = d.store.free()
	n.Devices = nil
	for i := range m.Devices {
		n.Devices = append(n.Devices, d.device(i))
	}
	return true
}

func (d condition) device(i int) api.Device {
	dev := &d.opt.Machine.Devices[i]
	out := api.Device{
		Name: dev.Name, Index: i, Type: dev.Type, UUID: dev.UUID, PCI: dev.PCI, NUMA: dev.NUMA, Memory: dev.Memory,
		Host: dev.Host, Broken: d.State().Cluster.Broken(cluster.DeviceID(i)), Note: d.deviceNote(i),
	}
	for _, r := range d.residents {
		if !r.ending && slices.Contains(r.note.Devices, dev.Name) {
			out.Resident = append(out.Resident, r.note.Backbone)
		}
	}
	if i < len(d.health.samples) {
		s := d.health.samples[i]
		out.Used, out.Util, out.Celsius, out.Watts, out.Measured = s.Used, s.Util, s.Celsius, s.Watts, s.OK
	}
	return out
}
