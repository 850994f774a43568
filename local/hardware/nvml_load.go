//go:build linux && (amd64 || arm64) && !nonvml

package hardware

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// systemNVML is NVML as this machine has it; none below another root.
func systemNVML(t tree) nvml {
	if !t.real() {
		return &library{}
	}
	return &library{names: []string{
		"libnvidia-ml.so.1",
		"/usr/local/nvidia/lib64/libnvidia-ml.so.1", // containers
		"/usr/lib/wsl/lib/libnvidia-ml.so.1",
		"/run/opengl-driver/lib/libnvidia-ml.so.1", // NixOS
	}}
}

// library is libnvidia-ml, loaded at run time. The functions are those of nvml.h;
// those that a library lacks are nil.
type library struct {
	names []string // tried in order

	mu     sync.Mutex
	loaded bool
	ready  bool

	start       func() int32
	stop        func() int32
	errorString func(int32) string
	getCount    func(*uint32) int32
	byIndex     func(uint32, *handle) int32
	byPCI       func(string, *handle) int32
	name        func(handle, *byte, uint32) int32
	uuid        func(handle, *byte, uint32) int32
	pci         func(handle, *pciInfo) int32
	minor       func(handle, *uint32) int32
	memory      func(handle, *memoryInfo) int32
	memory2     func(handle, *memoryInfo2) int32
	utilization func(handle, *utilization) int32
	temperature func(handle, int32, *uint32) int32
	threshold   func(handle, int32, *uint32) int32
	power       func(handle, *uint32) int32
	ecc         func(handle, int32, int32, *uint64) int32
	mig         func(handle, *uint32, *uint32) int32
	processes   func(handle, *uint32, *processInfo) int32
	clients     func(handle, *uint32, *processInfo) int32 // of CUDA MPS
	ancestor    func(handle, handle, *int32) int32
	p2p         func(handle, handle, int32, *int32) int32
	linkState   func(handle, uint32, *int32) int32
	linkPCI     func(handle, uint32, *pciInfo) int32
	linkType    func(handle, uint32, *int32) int32
	fieldValues func(handle, int32, *fieldValue) int32
}

// The structs of nvml.h.
type (
	pciInfo struct {
		_     [16]byte  // legacy bus id
		_     [5]uint32 // domain, bus, device, id, subsystem
		busID [32]byte
	}
	memoryInfo struct {
		total uint64
		_     uint64 // free
		used  uint64
	}
	memoryInfo2 struct {
		version uint32
		_       [3]uint64 // total, reserved, free
		used    uint64
	}
	utilization struct {
		gpu uint32
		_   uint32 // memory
	}
	processInfo struct { // nvmlProcessInfo_v2_t
		pid  uint32
		used uint64
		_    [2]uint32 // GPU instance, compute instance
	}
	fieldValue struct {
		id    uint32
		_     uint32   // scope
		_     [2]int64 // timestamp, latency
		_     int32    // kind of value
		code  int32
		value [8]byte
	}
)

// Numbers of nvml.h.
const (
	thresholdSlowdown = 1
	eccUncorrected    = 1
	eccVolatile       = 0 // since the driver was loaded
	p2pNVLink         = 2
	maxNVLinks        = 36
	remoteSwitch      = 2
	fieldNVLinkMBps   = 90
	valueNotAvailable = ^uint64(0)
	pastProcesses     = 64 // room for processes that start between two calls
)

// symbols are where each function of the library is kept, under the first name
// that the library has.
func (l *library) symbols() map[any][]string {
	return map[any][]string{
		&l.start: {"nvmlInit_v2"}, &l.stop: {"nvmlShutdown"}, &l.errorString: {"nvmlErrorString"},
		&l.getCount: {"nvmlDeviceGetCount_v2"}, &l.byIndex: {"nvmlDeviceGetHandleByIndex_v2"}, &l.byPCI: {"nvmlDeviceGetHandleByPciBusId_v2"},
		&l.name: {"nvmlDeviceGetName"}, &l.uuid: {"nvmlDeviceGetUUID"}, &l.pci: {"nvmlDeviceGetPciInfo_v3"}, &l.minor: {"nvmlDeviceGetMinorNumber"},
		&l.memory: {"nvmlDeviceGetMemoryInfo"}, &l.memory2: {"nvmlDeviceGetMemoryInfo_v2"}, &l.utilization: {"nvmlDeviceGetUtilizationRates"},
		&l.temperature: {"nvmlDeviceGetTemperature"}, &l.threshold: {"nvmlDeviceGetTemperatureThreshold"}, &l.power: {"nvmlDeviceGetPowerUsage"},
		&l.ecc: {"nvmlDeviceGetTotalEccErrors"}, &l.mig: {"nvmlDeviceGetMigMode"},
		&l.processes: {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
		&l.clients:   {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"},
		&l.ancestor:  {"nvmlDeviceGetTopologyCommonAncestor"}, &l.p2p: {"nvmlDeviceGetP2PStatus"},
		&l.linkState: {"nvmlDeviceGetNvLinkState"}, &l.linkPCI: {"nvmlDeviceGetNvLinkRemotePciInfo_v2"}, &l.linkType: {"nvmlDeviceGetNvLinkRemoteDeviceType"},
		&l.fieldValues: {"nvmlDeviceGetFieldValues"},
	}
}

// load finds the library and its functions.
func (l *library) load() error {
	var lib uintptr
	var err error
	for _, name := range l.names {
		if lib, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			break
		}
	}
	if lib == 0 {
		return errNoNVML
	}
	for f, names := range l.symbols() {
		for _, name := range names {
			if at, err := purego.Dlsym(lib, name); err == nil && at != 0 {
				purego.RegisterFunc(f, at)
				break
			}
		}
	}
	if l.start == nil || l.stop == nil || l.getCount == nil || l.byIndex == nil || l.byPCI == nil || l.name == nil || l.pci == nil || l.memory == nil {
		return fmt.Errorf("the library %s is too old, or is not NVML", l.names[0])
	}
	l.loaded = true
	return nil
}

// open implements nvml.
func (l *library) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		return nil
	}
	if !l.loaded {
		if err := l.load(); err != nil {
			return err
		}
	}
	if err := l.fault(l.start()); err != nil {
		return err
	}
	l.ready = true
	return nil
}

// close implements nvml.
func (l *library) close() {
	if !l.mu.TryLock() {
		return // open hangs
	}
	defer l.mu.Unlock()
	if l.ready {
		l.stop()
		l.ready = false
	}
}

// fault is the error of a return code.
func (l *library) fault(code int32) error {
	if code == 0 {
		return nil
	}
	text := fmt.Sprintf("error %d of NVML", code)
	if l.errorString != nil {
		text = fmt.Sprintf("%s (error %d of NVML)", l.errorString(code), code)
	}
	return &nvmlError{code, text}
}

// count implements nvml.
func (l *library) count() (int, error) {
	var n uint32
	err := l.fault(l.getCount(&n))
	return int(n), err
}

// find implements nvml.
func (l *library) find(pci string) (handle, error) {
	var h handle
	err := l.fault(l.byPCI(pci, &h))
	return h, err
}

// gpu implements nvml.
func (l *library) gpu(index int) (*nvidiaGPU, error) {
	g := &nvidiaGPU{minor: -1}
	var pci pciInfo
	var mem memoryInfo
	var name [96]byte
	for _, ask := range []func() int32{
		func() int32 { return l.byIndex(uint32(index), &g.handle) },
		func() int32 { return l.pci(g.handle, &pci) },
		func() int32 { return l.name(g.handle, &name[0], uint32(len(name))) },
		func() int32 { return l.memory(g.handle, &mem) },
	} {
		if err := l.fault(ask()); err != nil {
			return nil, err
		}
	}
	g.product, g.pci, g.memory = text(name[:]), PlainPCI(text(pci.busID[:])), unit.Bytes(mem.total)
	var uuid [96]byte
	if l.uuid != nil && l.uuid(g.handle, &uuid[0], uint32(len(uuid))) == 0 {
		g.uuid = text(uuid[:])
	}
	var minor, now, pending uint32
	if l.minor != nil && l.minor(g.handle, &minor) == 0 {
		g.minor = int(minor)
	}
	g.mig = l.mig != nil && l.mig(g.handle, &now, &pending) == 0 && now == 1
	return g, nil
}

// text is what stands before the zero byte.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// read implements nvml. The memory is what every GPU tells, so that an error there
// means that the GPU cannot be used; of the other figures only a lost GPU does.
func (l *library) read(h handle) (reading, error) {
	r := reading{Sample: Sample{Measured: true}, ecc: -1}
	var err error
	if r.Used, err = l.used(h); err != nil {
		return r, err
	}
	var util utilization
	var celsius, slow, milliwatts uint32
	var ecc uint64
	for _, x := range []struct {
		known bool
		ask   func() int32
		take  func()
	}{
		{l.utilization != nil, func() int32 { return l.utilization(h, &util) }, func() { r.Util = float64(util.gpu) / 100 }},
		{l.temperature != nil, func() int32 { return l.temperature(h, 0, &celsius) }, func() { r.Celsius = float64(celsius) }},
		{l.threshold != nil, func() int32 { return l.threshold(h, thresholdSlowdown, &slow) }, func() { r.slowdown = float64(slow) }},
		{l.power != nil, func() int32 { return l.power(h, &milliwatts) }, func() { r.Watts = float64(milliwatts) / 1000 }},
		{l.ecc != nil, func() int32 { return l.ecc(h, eccUncorrected, eccVolatile, &ecc) }, func() { r.ecc = int64(min(ecc, 1<<62)) }},
	} {
		if !x.known {
			continue
		}
		err := l.fault(x.ask())
		var refused *nvmlError
		switch {
		case err == nil:
			x.take()
		case errors.As(err, &refused) && refused.lost():
			return r, err
		}
	}
	r.Processes = l.running(h)
	return r, nil
}

// used is the memory that is allocated, without what the driver keeps for
// itself where that is told.
func (l *library) used(h handle) (unit.Bytes, error) {
	if l.memory2 != nil {
		m := memoryInfo2{version: uint32(unsafe.Sizeof(memoryInfo2{})) | 2<<24}
		if l.memory2(h, &m) == 0 {
			return unit.Bytes(m.used), nil
		}
	}
	var m memoryInfo
	err := l.fault(l.memory(h, &m))
	return unit.Bytes(m.used), err
}

// running are the processes that compute on a GPU, by themselves or through CUDA MPS, by
// number. Should the driver list one as both it counts as the larger.
func (l *library) running(h handle) []Process {
	all := append(l.listed(h, l.processes), l.listed(h, l.clients)...)
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(a.PID-b.PID, cmp.Compare(b.Used, a.Used)) })
	return slices.CompactFunc(all, func(a, b Process) bool { return a.PID == b.PID })
}

// listed is one of the lists of processes that the library has, if it has it.
func (l *library) listed(h handle, list func(handle, *uint32, *processInfo) int32) []Process {
	if list == nil {
		return nil
	}
	n := uint32(pastProcesses)
	for range 3 { // until there is room for all
		room := make([]processInfo, n)
		switch list(h, &n, &room[0]) {
		case 0:
			var all []Process
			for _, p := range room[:min(int(n), len(room))] {
				used := unit.Bytes(0)
				if p.used != valueNotAvailable {
					used = unit.Bytes(p.used)
				}
				all = append(all, Process{int(p.pid), used})
			}
			return all
		case nvmlInsufficientSize:
			n = min(n, 1<<16) + pastProcesses
		default:
			return nil
		}
	}
	return nil
}

// path implements nvml.
func (l *library) path(a, b handle) (cluster.Link, bool) {
	if n, perLink := l.nvlinks(a, b); n > 0 {
		return cluster.Link{Class: cluster.NVLink, GBps: float64(n) * perLink, Count: uint8(n)}, true
	}
	var level int32
	if l.ancestor == nil || l.ancestor(a, b, &level) != 0 {
		return cluster.Link{}, false
	}
	switch {
	case level <= 20: // on one board, or without a host bridge between them
		return cluster.Link{Class: cluster.PCIeSwitch}, true
	case level <= 40: // one host bridge, or one NUMA node
		return cluster.Link{Class: cluster.Socket}, true
	}
	return cluster.Link{Class: cluster.CrossSocket}, true
}

// nvlinks is how many NVLinks go from a to b, directly or through switches, and
// the speed of each in GB/s.
func (l *library) nvlinks(a, b handle) (n int, gbps float64) {
	var status int32
	if l.p2p == nil || l.linkState == nil || l.p2p(a, b, p2pNVLink, &status) != 0 || status != 0 {
		return 0, 0
	}
	var other pciInfo
	if l.pci(b, &other) != 0 {
		return 0, 0
	}
	direct, switched := 0, 0
	for i := range uint32(maxNVLinks) {
		var active, kind int32
		if l.linkState(a, i, &active) != 0 || active != 1 {
			continue
		}
		var end pciInfo
		switch {
		case l.linkPCI != nil && l.linkPCI(a, i, &end) == 0 && PlainPCI(text(end.busID[:])) == PlainPCI(text(other.busID[:])):
			direct++
		case l.linkType != nil && l.linkType(a, i, &kind) == 0 && kind == remoteSwitch:
			switched++
		}
	}
	return max(1, direct, switched), l.linkSpeed(a)
}

// usualNVLink is the speed of one NVLink of most generations, in GB/s.
const usualNVLink = 25

// linkSpeed is the speed of one NVLink of a GPU, in GB/s.
func (l *library) linkSpeed(h handle) float64 {
	v := fieldValue{id: fieldNVLinkMBps}
	if l.fieldValues == nil || l.fieldValues(h, 1, &v) != 0 || v.code != 0 {
		return usualNVLink
	}
	mbps := *(*uint32)(unsafe.Pointer(&v.value))
	if mbps == 0 || mbps > 1_000_000 {
		return usualNVLink
	}
	return float64(mbps) / 1000
}
