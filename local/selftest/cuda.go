//go:build linux && (amd64 || arm64) && !nonvml

package selftest

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver is CUDA's driver API, loaded at run time: as much of libcuda.so.1 as a job of
// a self-test needs. All calls come from one thread, to which the context belongs.
type driver struct {
	start       func(uint32) int32
	errorName   func(int32, *uintptr) int32
	count       func(*int32) int32
	get         func(*int32, int32) int32
	uuid        func(*[16]byte, int32) int32
	attribute   func(*int32, int32, int32) int32
	retain      func(*uintptr, int32) int32
	setCurrent  func(uintptr) int32
	sync        func() int32
	info        func(free, total *uintptr) int32
	alloc       func(*uintptr, uintptr) int32
	fill        func(uintptr, uint32, uintptr) int32
	toDevice    func(uintptr, unsafe.Pointer, uintptr) int32
	toHost      func(unsafe.Pointer, uintptr, uintptr) int32
	loadModule  func(*uintptr, *byte) int32
	getFunction func(*uintptr, uintptr, string) int32
	launch      func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, params, extra unsafe.Pointer) int32

	step uintptr // the kernel
}

// cudaLibraries are where the driver API is looked for, in this order.
var cudaLibraries = []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"}

// errNoCUDA is a machine without CUDA's driver API.
var errNoCUDA = errors.New("libcuda.so.1 was not found")

// openDriver loads the library. The thread of the caller stays hers from then on.
func openDriver() (*driver, error) {
	runtime.LockOSThread()
	var lib uintptr
	for _, name := range cudaLibraries {
		if at, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			lib = at
			break
		}
	}
	if lib == 0 {
		return nil, errNoCUDA
	}
	d := &driver{}
	for f, name := range map[any]string{
		&d.start: "cuInit", &d.errorName: "cuGetErrorName", &d.count: "cuDeviceGetCount", &d.get: "cuDeviceGet",
		&d.uuid: "cuDeviceGetUuid", &d.attribute: "cuDeviceGetAttribute", &d.retain: "cuDevicePrimaryCtxRetain", &d.setCurrent: "cuCtxSetCurrent",
		&d.sync: "cuCtxSynchronize", &d.info: "cuMemGetInfo_v2", &d.alloc: "cuMemAlloc_v2", &d.fill: "cuMemsetD32_v2",
		&d.toDevice: "cuMemcpyHtoD_v2", &d.toHost: "cuMemcpyDtoH_v2", &d.loadModule: "cuModuleLoadData", &d.getFunction: "cuModuleGetFunction",
		&d.launch: "cuLaunchKernel",
	} {
		at, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, fmt.Errorf("libcuda.so.1 has no %s", name)
		}
		purego.RegisterFunc(f, at)
	}
	return d, d.fault("cuInit", d.start(0))
}

// noDevice is CUDA's code for a process that sees no GPU.
const noDevice = 100

// cudaError is a refusal of CUDA.
type cudaError struct {
	call string
	code int32
	name string
}

func (e *cudaError) Error() string {
	return fmt.Sprintf("%s: %s (error %d of CUDA)", e.call, e.name, e.code)
}

func (d *driver) fault(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &cudaError{call, code, "unknown"}
	var at uintptr
	if d.errorName(code, &at) == 0 && at != 0 {
		e.name = text(at)
	}
	return e
}

// text is the text at an address, up to its zero byte.
func text(at uintptr) string {
	var b []byte
	for p := *(*unsafe.Pointer)(unsafe.Pointer(&at)); *(*byte)(p) != 0 && len(b) < 100; p = unsafe.Add(p, 1) {
		b = append(b, *(*byte)(p))
	}
	return string(b)
}

// seen are the UUIDs of the GPUs that this process sees, as NVML writes them.
func (d *driver) seen() ([]string, error) {
	var n int32
	if err := d.fault("cuDeviceGetCount", d.count(&n)); err != nil {
		return nil, err
	}
	all := make([]string, 0, n)
	for i := range n {
		var dev int32
		var id [16]byte
		if err := errors.Join(d.fault("cuDeviceGet", d.get(&dev, i)), d.fault("cuDeviceGetUuid", d.uuid(&id, dev))); err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
	}
	return all, nil
}

// visibleGPUs are the UUIDs of the GPUs that this process sees.
func visibleGPUs() ([]string, error) {
	d, err := openDriver()
	var refused *cudaError
	if errors.As(err, &refused) && refused.code == noDevice {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.seen()
}

// kernel steps each word of a vector, x = a*x + c, so many rounds. Drivers compile it
// for whatever GPU there is.
const kernel = `.version 6.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 vector, .param .u32 words, .param .u32 rounds)
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [vector];
	ld.param.u32 %r1, [words];
	ld.param.u32 %r2, [rounds];
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.u32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r6, %r1;
	@%p1 bra end;
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r6, 4;
	add.u64 %rd4, %rd2, %rd3;
	ld.global.u32 %r7, [%rd4];
again:
	setp.eq.u32 %p2, %r2, 0;
	@%p2 bra store;
	mad.lo.u32 %r7, %r7, 1664525, 1013904223;
	sub.u32 %r2, %r2, 1;
	bra again;
store:
	st.global.u32 [%rd4], %r7;
end:
	ret;
}
`

// gpu is the first GPU that this process sees, as a place to work.
type gpu struct {
	*driver
	sms    int // multiprocessors that this process may use
	ids    []string
	vector uintptr
	held   []region
}

// region is memory of the GPU that holds a pattern.
type region struct{ at, words uintptr }

// numbers of cuda.h.
const (
	attributeMultiprocessors = 16
	block                    = 256
)

// openGPU makes a context on the first GPU.
func openGPU() (place, error) {
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	g := &gpu{driver: d}
	if g.ids, err = d.seen(); err != nil {
		return nil, err
	}
	var dev, sms int32
	var ctx, module uintptr
	source := append([]byte(kernel), 0)
	for _, c := range []struct {
		call string
		do   func() int32
	}{
		{"cuDeviceGet", func() int32 { return d.get(&dev, 0) }},
		{"cuDevicePrimaryCtxRetain", func() int32 { return d.retain(&ctx, dev) }},
		{"cuCtxSetCurrent", func() int32 { return d.setCurrent(ctx) }},
		{"cuDeviceGetAttribute", func() int32 { return d.attribute(&sms, attributeMultiprocessors, dev) }},
		{"cuModuleLoadData", func() int32 { return d.loadModule(&module, &source[0]) }},
		{"cuModuleGetFunction", func() int32 { return d.getFunction(&d.step, module, "step") }},
		{"cuMemAlloc", func() int32 { return d.alloc(&g.vector, 4*gpuWords) }},
	} {
		if err := d.fault(c.call, c.do()); err != nil {
			return nil, err
		}
	}
	g.sms = int(sms)
	return g, nil
}

// size implements place.
func (g *gpu) size() (words, rounds int) { return gpuWords, gpuRounds }

// put implements place.
func (g *gpu) put(words []uint32) error {
	return g.fault("cuMemcpyHtoD", g.toDevice(g.vector, unsafe.Pointer(&words[0]), uintptr(4*len(words))))
}

// take implements place.
func (g *gpu) take(words []uint32) error {
	return g.fault("cuMemcpyDtoH", g.toHost(unsafe.Pointer(&words[0]), g.vector, uintptr(4*len(words))))
}

// compute implements place.
func (g *gpu) compute() error {
	vector, words, rounds := g.vector, uint32(gpuWords), uint32(gpuRounds)
	params := [3]unsafe.Pointer{unsafe.Pointer(&vector), unsafe.Pointer(&words), unsafe.Pointer(&rounds)}
	defer runtime.KeepAlive(&params)
	if err := g.fault("cuLaunchKernel", g.launch(g.step, gpuWords/block, 1, 1, block, 1, 1, 0, 0, unsafe.Pointer(&params[0]), nil)); err != nil {
		return err
	}
	return g.fault("cuCtxSynchronize", g.sync())
}

// hold implements place.
func (g *gpu) hold(bytes int64) error {
	r := region{words: uintptr(bytes / 4)}
	if err := g.fault("cuMemAlloc", g.alloc(&r.at, 4*r.words)); err != nil {
		return err
	}
	g.held = append(g.held, r)
	return errors.Join(g.fault("cuMemsetD32", g.fill(r.at, pattern, r.words)), g.fault("cuCtxSynchronize", g.sync()))
}

// intact implements place.
func (g *gpu) intact() (bool, error) {
	window := make([]uint32, 1<<20)
	for _, r := range g.held {
		for at := uintptr(0); at < r.words; at += uintptr(len(window)) {
			part := window[:min(uintptr(len(window)), r.words-at)]
			if err := g.fault("cuMemcpyDtoH", g.toHost(unsafe.Pointer(&part[0]), r.at+4*at, uintptr(4*len(part)))); err != nil {
				return false, err
			}
			for _, w := range part {
				if w != pattern {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// tell implements place.
func (g *gpu) tell(n *note) error {
	var free, total uintptr
	err := g.fault("cuMemGetInfo", g.info(&free, &total))
	n.GPUs, n.Free, n.Total, n.Multiprocessors = g.ids, int64(free), int64(total), g.sms
	return err
}
