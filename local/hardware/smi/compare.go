package smi

import (
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/hardware"
)

// pairs are the GPUs that were found with those of a report, by their PCI addresses,
// and what either has alone, a sentence each.
func (r *Report) pairs(m *hardware.Machine) (found []*hardware.Device, told []*GPU, off []string) {
	used := make([]bool, len(r.GPUs))
	for i := range m.Devices {
		d := &m.Devices[i]
		if d.Kind != hardware.NVIDIA {
			continue
		}
		k := slices.IndexFunc(r.GPUs, func(g GPU) bool { return g.PCI == d.PCI })
		if k < 0 {
			off = append(off, fmt.Sprintf("%s at %s is not in nvidia-smi", d.Name, d.PCI))
			continue
		}
		used[k] = true
		found, told = append(found, d), append(told, &r.GPUs[k])
	}
	for k := range used {
		if !used[k] {
			off = append(off, fmt.Sprintf("%s at %s was not found", r.GPUs[k].Product, r.GPUs[k].PCI))
		}
	}
	return found, told, off
}

// Types says where the GPUs that were found are others than those of the report, a
// sentence each: which there are, what they are called, their UUIDs, device files and
// numbers.
func (r *Report) Types(m *hardware.Machine) []string {
	found, told, off := r.pairs(m)
	for i, d := range found {
		g := told[i]
		differ := func(what, have, want string) {
			if have != want {
				off = append(off, fmt.Sprintf("%s: the %s is %q, in nvidia-smi %q", d.Name, what, have, want))
			}
		}
		differ("product", d.Product, g.Product)
		differ("UUID", d.UUID, g.UUID)
		differ("number", fmt.Sprint(d.Index), fmt.Sprint(slices.IndexFunc(r.GPUs, func(o GPU) bool { return o.PCI == d.PCI })))
		if g.Minor >= 0 {
			differ("device file", fmt.Sprint(d.Files), fmt.Sprintf("[/dev/nvidia%d]", g.Minor))
		}
	}
	return off
}

// Memory says where the memory of a GPU is another than in the report.
func (r *Report) Memory(m *hardware.Machine) (off []string) {
	found, told, _ := r.pairs(m)
	for i, d := range found {
		if apart := d.Memory - told[i].Total; max(apart, -apart) > unit.MiB { // nvidia-smi rounds
			off = append(off, fmt.Sprintf("%s: %v of memory, in nvidia-smi %v", d.Name, d.Memory, told[i].Total))
		}
	}
	return off
}

// MIG says where a GPU is taken for one in MIG mode and is none, or the other way.
func (r *Report) MIG(m *hardware.Machine) (off []string) {
	found, told, _ := r.pairs(m)
	for i, d := range found {
		if on := told[i].MIG == "Enabled"; d.MIG != on {
			off = append(off, fmt.Sprintf("%s: taken to be in MIG mode: %v, in nvidia-smi: %v", d.Name, d.MIG, on))
		}
	}
	return off
}

// slowest is less than one NVLink of any generation carries one way, in GB/s.
const slowest = 15

// Differences says where the links and NUMA nodes that were found are others than those
// of the matrix. An NVLink must be as fast as so many links are at least.
func (t *Topology) Differences(m *hardware.Machine) (off []string) {
	for i := range m.Devices {
		a := &m.Devices[i]
		if a.Kind != hardware.NVIDIA || a.Index >= len(t.Links) {
			continue
		}
		if want := t.NUMA[a.Index]; want >= 0 && a.NUMA != want {
			off = append(off, fmt.Sprintf("%s is at NUMA node %d, in nvidia-smi at %d", a.Name, a.NUMA, want))
		}
		for j := range i {
			b := &m.Devices[j]
			if b.Kind != hardware.NVIDIA || b.Index >= len(t.Links) || m.Links == nil {
				continue
			}
			want := t.Links[a.Index][b.Index]
			link := m.Links.Between(i, j)
			switch {
			case link.Class != want.Class:
				off = append(off, fmt.Sprintf("%s and %s: linked by %v, in nvidia-smi %s", b.Name, a.Name, link.Class, want.Word))
			case link.Class == cluster.NVLink && link.GBps < slowest*float64(want.NVLinks):
				off = append(off, fmt.Sprintf("%s and %s: %.0f GB/s, in nvidia-smi %s", b.Name, a.Name, link.GBps, want.Word))
			}
		}
	}
	return off
}
