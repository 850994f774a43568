// Package hardware finds what a machine has to share out, and measures it: GPUs,
// CPUs, memory, NUMA nodes, links.
//
// Nouns:
//   - A Machine is the hardware that was found.
//   - A Device is a GPU, a declared slot that stands for one, or a part of the
//     processors (a host device).
//   - A Sampler looks at the devices again and again.
//   - A trouble is a reason for which a device must take no new work.
//
// Units: memory in bytes, CPU cores in thousandths, link speeds in GB/s,
// temperatures in degrees Celsius, power in watts.
//
// Sources: NVIDIA's management library (NVML), loaded at run time where there is
// one; /proc/driver/nvidia where there is none; for AMD the amdgpu and kfd
// drivers in sysfs; for the rest /proc, sysfs and the cgroup of the process.
// Everything that is read as a file is read below Options.Root.
//
// Because NVML is loaded by the system's loader, a program with this package is
// linked to the C library even when it is built with CGO_ENABLED=0. With the
// build tag nonvml it is not, and measures no NVIDIA GPUs.
package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// Machine is what was found.
type Machine struct {
	Name   string
	CPUs   unit.Milli // that this process may use, less what is reserved
	Memory unit.Bytes // that this process may use, less what is reserved; 0: not known
	NUMA   []NUMANode // in order of their numbers
	// Devices are in order of their numbers, but those of one type stand
	// together: so a device has the same place here and in the node of Node.
	Devices []Device
	Links   *cluster.Links // between Devices; nil: not known
	Notes   []string       // what an operator should know, one sentence each

	nvml nvml
}

// NUMANode is CPUs and memory that are near each other.
type NUMANode struct {
	ID     int
	CPUs   []int // that this process may use
	Memory unit.Bytes
}

// Kind is where a device comes from.
type Kind uint8

// The kinds of devices.
const (
	Slot Kind = iota // declared
	NVIDIA
	AMD
	Host // a part of the processors
)

// Device is a GPU, a declared slot, or a part of the processors.
type Device struct {
	Name    string // gpu0, slot0 or host0
	Index   int    // from 0: NVIDIA's in order of their PCI addresses, then AMD's
	Kind    Kind
	Type    string // as policies and users name it, such as H200; slot; host
	Product string // in full, such as NVIDIA H200
	UUID    string
	PCI     string     // such as 0000:18:00.0
	NUMA    int        // node; -1: not known
	Memory  unit.Bytes // 0: not known
	MIG     bool       // it is in MIG mode: CUDA uses its first instance alone
	Cores   float64    // processors that it stands for: of declared slots and host devices
	Files   []string   // device files that belong to it alone
	Env     string     // variable that shows it to a process
	Visible string     // its value there: a UUID where the driver takes one, else a number

	probe probe // nil: it cannot be measured
}

// Variables that say which GPUs a process sees.
const (
	EnvNVIDIA = "CUDA_VISIBLE_DEVICES"
	EnvAMD    = "ROCR_VISIBLE_DEVICES"
)

// Options is what is looked for.
type Options struct {
	Root    string  // of the files that are read; empty: /
	Declare bool    // declared slots instead of GPUs
	Slots   []Slots // none with Declare: no devices at all
	SlotMem unit.Bytes
	Hosts   int        // parts of the processors that are devices
	HostMem unit.Bytes // of each; 0: an equal part
	Only    []string   // GPUs to take: by number, name, UUID or PCI address; none: all
	Reserve Reserve    // what is left to the system

	nvml    nvml             // nil: that of the system, on the real root
	expired <-chan time.Time // sends when NVML has been waited for long enough; nil: after a minute
}

// Slots is declared slots of a type.
type Slots struct {
	Type  string
	Count int
}

// Reserve is what is left to the system.
type Reserve struct {
	CPUs   unit.Milli
	Memory unit.Bytes
}

// maxDevices is how many devices of one type a node can tell apart.
const maxDevices = cluster.MaxGroup

// Find looks at the machine. That something is not there is no error, but a
// note; it fails when a GPU of Only is not there, and when what is reserved
// leaves nothing.
func Find(opt Options) (*Machine, error) {
	t := tree(opt.Root)
	m := &Machine{Name: t.hostname()}
	m.findCPUs(t)
	m.findMemory(t)
	if err := m.reserve(opt.Reserve); err != nil {
		return nil, err
	}
	if opt.Declare {
		if err := m.declare(opt.Slots, opt.SlotMem); err != nil {
			return nil, err
		}
	} else if err := m.findGPUs(t, &opt); err != nil {
		return nil, err
	}
	m.host(opt.Hosts, opt.HostMem)
	if !opt.Declare {
		m.link(t)
	}
	return m, nil
}

// findGPUs finds the GPUs.
func (m *Machine) findGPUs(t tree, opt *Options) error {
	m.nvml = opt.nvml
	if m.nvml == nil {
		m.nvml = systemNVML(t)
	}
	if opt.expired == nil {
		opt.expired = time.After(startPatience)
	}
	m.findNVIDIA(t, opt.expired)
	m.findAMD(t)
	for i := range m.Devices {
		d := &m.Devices[i]
		d.Index, d.Name = i, "gpu"+strconv.Itoa(i)
		if d.NUMA < 0 && len(m.NUMA) == 1 {
			d.NUMA = m.NUMA[0].ID
		}
	}
	if err := m.choose(opt.Only); err != nil {
		return err
	}
	if len(m.Devices) == 0 {
		m.note("no GPU was found: jobs can ask for none, unless slots are declared")
	}
	m.group()
	return nil
}

func (m *Machine) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// reserve takes off what is left to the system.
func (m *Machine) reserve(r Reserve) error {
	switch {
	case r.CPUs >= m.CPUs:
		return fmt.Errorf("%v CPU cores are reserved for the system, and there are %v: nothing is left for jobs", r.CPUs, m.CPUs)
	case m.Memory > 0 && r.Memory >= m.Memory:
		return fmt.Errorf("%v of memory are reserved for the system, and there are %v: nothing is left for jobs", r.Memory, m.Memory)
	}
	m.CPUs -= r.CPUs
	if m.Memory > 0 {
		m.Memory -= r.Memory
	}
	return nil
}

// declare makes slots.
func (m *Machine) declare(all []Slots, memory unit.Bytes) error {
	for _, s := range all {
		if s.Count < 0 || s.Count > maxDevices {
			return fmt.Errorf("%d slots of type %s: declare 0 to %d", s.Count, s.Type, maxDevices)
		}
		for range s.Count {
			i := len(m.Devices)
			m.Devices = append(m.Devices, Device{
				Name: "slot" + strconv.Itoa(i), Index: i, Kind: Slot, Type: s.Type, Product: "slot", NUMA: -1, Env: EnvNVIDIA, Visible: strconv.Itoa(i), Memory: memory,
			})
		}
	}
	return nil
}

// host adds host devices behind all others, and divides the processors: evenly
// among what stands for a part of them, declared slots and host devices. A task on
// a host device sees no GPU.
func (m *Machine) host(n int, memory unit.Bytes) {
	n = min(n, maxDevices)
	if memory == 0 && n > 0 {
		memory = m.Memory / unit.Bytes(n)
	}
	for i := range n {
		m.Devices = append(m.Devices, Device{
			Name: "host" + strconv.Itoa(i), Index: i, Kind: Host, Type: "host", Product: "processors", NUMA: -1, Memory: memory, Env: EnvNVIDIA,
		})
	}
	parts := 0
	for i := range m.Devices {
		if k := m.Devices[i].Kind; k == Slot || k == Host {
			parts++
		}
	}
	for i := range m.Devices {
		if k := m.Devices[i].Kind; k == Slot || k == Host {
			m.Devices[i].Cores = float64(m.CPUs) / 1000 / float64(parts)
		}
	}
}

// choose keeps the GPUs that are asked for, with the names they have among all.
func (m *Machine) choose(only []string) error {
	if len(only) == 0 {
		return nil
	}
	keep := make([]bool, len(m.Devices))
	for _, want := range only {
		i := slices.IndexFunc(m.Devices, func(d Device) bool { return d.named(want) })
		switch {
		case i < 0 && len(m.Devices) == 0:
			return fmt.Errorf("GPU %q is not there: no GPU was found%s", want, m.because())
		case i < 0:
			return fmt.Errorf("GPU %q is not there; there are: %s", want, strings.Join(m.names(), ", "))
		case keep[i]:
			return fmt.Errorf("GPU %q is asked for twice: it is %s", want, m.Devices[i].Name)
		}
		keep[i] = true
	}
	var kept []Device
	for i := range m.Devices {
		if keep[i] {
			kept = append(kept, m.Devices[i])
		}
	}
	m.Devices = kept
	return nil
}

// because is the notes, for the end of a sentence.
func (m *Machine) because() string {
	if len(m.Notes) == 0 {
		return ""
	}
	return " (" + strings.Join(m.Notes, "; ") + ")"
}

func (m *Machine) names() []string {
	var names []string
	for i := range m.Devices {
		names = append(names, m.Devices[i].Name)
	}
	return names
}

// named tells whether a user means this device.
func (d *Device) named(want string) bool {
	if n, err := strconv.Atoi(want); err == nil {
		return n == d.Index
	}
	return strings.EqualFold(want, d.Name) || d.UUID != "" && strings.EqualFold(want, d.UUID) || d.PCI != "" && PlainPCI(want) == d.PCI
}

// PlainPCI writes a PCI address as sysfs does: 0000:18:00.0.
func PlainPCI(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	domain, rest, ok := strings.Cut(s, ":")
	if ok && len(domain) > 4 && strings.Trim(domain[:len(domain)-4], "0") == "" {
		return domain[len(domain)-4:] + ":" + rest
	}
	return s
}

// group puts devices of one type together, in order of their first device, and
// tells apart by memory those that share a short name.
func (m *Machine) group() {
	for _, name := range m.types() {
		least, most := m.memory(name)
		if float64(least) >= 0.9*float64(most) {
			continue
		}
		for i := range m.Devices {
			if d := &m.Devices[i]; d.Type == name && d.Memory > 0 {
				d.Type = fmt.Sprintf("%s-%dG", name, (d.Memory+unit.GiB/2)/unit.GiB)
			}
		}
	}
	order := m.types()
	slices.SortStableFunc(m.Devices, func(a, b Device) int {
		return slices.Index(order, a.Type) - slices.Index(order, b.Type)
	})
}

// types are the types of the devices, in order of first appearance.
func (m *Machine) types() []string {
	var types []string
	for i := range m.Devices {
		if t := m.Devices[i].Type; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// memory is the least and the most memory of the devices of a type.
func (m *Machine) memory(name string) (least, most unit.Bytes) {
	for i := range m.Devices {
		d := &m.Devices[i]
		if d.Type != name || d.Memory == 0 {
			continue
		}
		if least == 0 || d.Memory < least {
			least = d.Memory
		}
		most = max(most, d.Memory)
	}
	return least, most
}

// Node is the machine as a node of a fresh cluster: when its types are added
// (cluster.AddType) in their order, they get the numbers that the node has.
func (m *Machine) Node() ([]cluster.GPUType, cluster.NodeSpec) {
	node := cluster.NodeSpec{Name: m.Name, CPU: m.CPUs, Memory: m.Memory, Links: m.Links}
	var types []cluster.GPUType
	for id, name := range m.types() {
		least, _ := m.memory(name)
		typ, n := cluster.GPUType{Name: name, Memory: least}, 0
		for i := range m.Devices {
			if m.Devices[i].Type == name {
				n++
				typ.Host = m.Devices[i].Kind == Host
			}
		}
		types = append(types, typ)
		node.GPUs = append(node.GPUs, cluster.GPUs{Type: cluster.TypeID(id), Count: n})
	}
	return types, node
}

// Close lets go of the driver's library, unless the driver hangs. The Machine and its Samplers must not be
// used afterwards.
func (m *Machine) Close() {
	if m.nvml != nil {
		m.nvml.close()
	}
}
