//go:build linux && (amd64 || arm64) && !nonvml

package hardware

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"unsafe"
)

// number is what NVML answered: a number, or the code of an error.
type number struct {
	value int64
	code  int32
	told  bool
}

func (n *number) UnmarshalJSON(b []byte) error {
	var refused struct{ Error int32 }
	n.told = true
	if json.Unmarshal(b, &refused) == nil {
		n.code = refused.Error
		return nil
	}
	return json.Unmarshal(b, &n.value)
}

// to gives the answer as NVML does; what was not recorded is not supported.
func (n *number) to(set func(int64)) int32 {
	if !n.told {
		return nvmlNotSupported
	}
	if n.code == 0 {
		set(n.value)
	}
	return n.code
}

// recording is testdata/machines/NAME/machine.json, as record.py writes it.
type recording struct {
	Files map[string]string
	GPUs  []recordedGPU
	// Ancestor is the level of all pairs that are not in Pairs.
	Ancestor int32
	Pairs    []struct {
		A, B      int
		Ancestor  int32
		P2PNVLink int32 `json:"p2p_nvlink"`
	}
}

type recordedGPU struct {
	Name   string
	UUID   string
	BusID  string `json:"bus_id"`
	Minor  uint32
	Memory struct{ Total, Free, Used uint64 }
	// Memory2 is nil where it is not supported.
	Memory2                                      *struct{ Total, Reserved, Free, Used uint64 } `json:"memory_v2"`
	Util, Temperature, Slowdown, Milliwatts, ECC number
	MIG                                          []uint32
	Processes, Clients                           []recordedProcess
	NVLinks                                      []struct {
		State  number
		Remote string
		Type   int32
		Times  int
	}
	MBps struct {
		Code  int32
		Value uint32
	} `json:"nvlink_mbps"`
}

type recordedProcess struct {
	PID  uint32
	Used uint64
}

// FindRecorded looks at a machine of testdata/machines, below a root that is filled with
// its files.
func FindRecorded(name, root string) (*Machine, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "machines", name, "machine.json"))
	if err != nil {
		return nil, err
	}
	var r recording
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	r.Files["/proc/self/status"] = "Cpus_allowed_list:\t0-7\n"
	for path, text := range r.Files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	return Find(Options{Root: root, nvml: r.library()})
}

// library is NVML as it answered when the machine was recorded.
func (r *recording) library() *library {
	for i := range r.GPUs { // links that were recorded as several equal ones
		g := &r.GPUs[i]
		links := g.NVLinks[:0:0]
		for _, l := range g.NVLinks {
			for range max(1, l.Times) {
				links = append(links, l)
			}
		}
		g.NVLinks = links
	}
	of := func(h handle) *recordedGPU { return &r.GPUs[h-1] }
	put := func(to *byte, room uint32, text string) int32 {
		copy(unsafe.Slice(to, room), text)
		return 0
	}
	l := &library{
		loaded: true,
		start:  func() int32 { return 0 }, stop: func() int32 { return 0 },
		getCount: func(n *uint32) int32 { *n = uint32(len(r.GPUs)); return 0 },
		byIndex:  func(i uint32, h *handle) int32 { *h = handle(i + 1); return 0 },
		byPCI: func(pci string, h *handle) int32 {
			*h = handle(1 + slices.IndexFunc(r.GPUs, func(g recordedGPU) bool { return PlainPCI(g.BusID) == pci }))
			return 0
		},
		name:   func(h handle, to *byte, n uint32) int32 { return put(to, n, of(h).Name) },
		pci:    func(h handle, p *pciInfo) int32 { copy(p.busID[:], of(h).BusID); return 0 },
		minor:  func(h handle, n *uint32) int32 { *n = of(h).Minor; return 0 },
		memory: func(h handle, m *memoryInfo) int32 { m.total, m.used = of(h).Memory.Total, of(h).Memory.Used; return 0 },
		uuid: func(h handle, to *byte, n uint32) int32 {
			if of(h).UUID == "" {
				return nvmlNotSupported
			}
			return put(to, n, of(h).UUID)
		},
	}
	r.figures(l, of)
	r.links(l, of)
	return l
}

// figures are what changes as a GPU is used.
func (r *recording) figures(l *library, of func(handle) *recordedGPU) {
	l.memory2 = func(h handle, m *memoryInfo2) int32 {
		if of(h).Memory2 == nil {
			return nvmlNotSupported
		}
		m.used = of(h).Memory2.Used
		return 0
	}
	l.utilization = func(h handle, u *utilization) int32 { return of(h).Util.to(func(n int64) { u.gpu = uint32(n) }) }
	l.temperature = func(h handle, _ int32, n *uint32) int32 {
		return of(h).Temperature.to(func(v int64) { *n = uint32(v) })
	}
	l.threshold = func(h handle, _ int32, n *uint32) int32 { return of(h).Slowdown.to(func(v int64) { *n = uint32(v) }) }
	l.power = func(h handle, n *uint32) int32 { return of(h).Milliwatts.to(func(v int64) { *n = uint32(v) }) }
	l.ecc = func(h handle, _, _ int32, n *uint64) int32 { return of(h).ECC.to(func(v int64) { *n = uint64(v) }) }
	l.mig = func(h handle, now, pending *uint32) int32 {
		if len(of(h).MIG) != 2 {
			return nvmlNotSupported
		}
		*now, *pending = of(h).MIG[0], of(h).MIG[1]
		return 0
	}
	l.processes = func(h handle, n *uint32, p *processInfo) int32 { return listed(of(h).Processes, n, p) }
	l.clients = func(h handle, n *uint32, p *processInfo) int32 { return listed(of(h).Clients, n, p) }
}

// listed gives a list of processes as NVML does.
func listed(all []recordedProcess, n *uint32, p *processInfo) int32 {
	room := *n
	if *n = uint32(len(all)); room < *n {
		return nvmlInsufficientSize
	}
	for i, x := range all {
		unsafe.Slice(p, room)[i] = processInfo{pid: x.PID, used: x.Used}
	}
	return 0
}

// links are how the GPUs are linked.
func (r *recording) links(l *library, of func(handle) *recordedGPU) {
	l.ancestor = func(a, b handle, level *int32) int32 {
		*level = r.Ancestor
		for _, p := range r.Pairs {
			if p.A == int(a)-1 && p.B == int(b)-1 {
				*level = p.Ancestor
			}
		}
		return 0
	}
	l.p2p = func(a, b handle, _ int32, status *int32) int32 {
		*status = 4 // not supported
		for _, x := range of(a).NVLinks {
			if x.Type == remoteSwitch && len(of(b).NVLinks) > 0 || x.Remote == of(b).BusID {
				*status = 0
			}
		}
		return 0
	}
	l.linkState = func(h handle, i uint32, active *int32) int32 {
		if int(i) >= len(of(h).NVLinks) {
			return nvmlNotSupported
		}
		return of(h).NVLinks[i].State.to(func(v int64) { *active = int32(v) })
	}
	l.linkPCI = func(h handle, i uint32, p *pciInfo) int32 { copy(p.busID[:], of(h).NVLinks[i].Remote); return 0 }
	l.linkType = func(h handle, i uint32, kind *int32) int32 { *kind = of(h).NVLinks[i].Type; return 0 }
	l.fieldValues = func(h handle, _ int32, v *fieldValue) int32 {
		v.code = nvmlNotSupported
		if of(h).MBps.Value > 0 {
			v.code = of(h).MBps.Code
			v.value = [8]byte{byte(of(h).MBps.Value), byte(of(h).MBps.Value >> 8), byte(of(h).MBps.Value >> 16)}
		}
		return 0
	}
}
