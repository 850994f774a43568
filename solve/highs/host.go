package highs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"
)

// HiGHS is given timeLimit seconds, and finds that more have passed when time is
// up. It is to end soon then; if it goes on asking, the search is given up.
const (
	standstill = 1 // what the clock shows until then: HiGHS takes a timer that began at zero for one that does not run
	timeLimit  = 1e6
	endOfTime  = 2e6
	patience   = 100_000 // questions
)

// brake ends a search from outside.
type brake struct {
	stop  atomic.Bool   // hand over what there is
	kill  atomic.Bool   // give up
	begun atomic.Bool   // somebody reads the model, or nobody shall
	read  chan struct{} // closed when the model has been read
}

// begin tells whether the model may be read.
func (b *brake) begin() bool { return b == nil || b.begun.CompareAndSwap(false, true) }

// end tells that the model will not be read again.
func (b *brake) end() {
	if b != nil {
		close(b.read)
	}
}

// leave gives up, and returns when the model is its owner's again.
func (b *brake) leave() {
	b.kill.Store(true)
	if !b.begin() {
		<-b.read
	}
}

// instance is HiGHS with a memory of its own.
type instance struct {
	ctx       context.Context
	module    api.Module
	memory    api.Memory
	functions map[string]api.Function
	broken    bool // it was left in the middle of something

	halt  *brake // of the model that is being solved
	steps int64
	limit int64 // of steps; 0 is none
	since int64 // the step after which time can be up: timers run by then
	late  int64 // how often the clock was read since
	said  []byte
}

type instanceKey struct{}

var (
	errKilled = errors.New("the search was given up")
	errSpun   = errors.New("the search did not end when time was up")
)

// startReads is how often HiGHS reads its clock to start its timers.
const startReads = 4

// now is the clock of HiGHS, in seconds. It stands still until time is up.
func (in *instance) now() float64 {
	in.steps++
	if in.halt != nil && in.halt.kill.Load() {
		panic(errKilled)
	}
	if in.halt != nil && in.halt.stop.Load() || in.limit > 0 && in.steps > in.limit {
		if in.steps > in.since {
			if in.late++; in.late > patience {
				panic(errSpun)
			}
			return endOfTime
		}
	}
	return standstill
}

// close frees the memory.
func (in *instance) close() { _ = in.module.Close(context.Background()) }

// call calls a function of HiGHS by its name in the C interface.
func (in *instance) call(name string, args ...uint64) (uint64, error) {
	f := in.functions[name]
	if f == nil {
		if f = in.module.ExportedFunction(exported[name]); f == nil {
			return 0, fmt.Errorf("HiGHS has no function %s", name)
		}
		in.functions[name] = f
	}
	res, err := f.Call(in.ctx, args...)
	if err != nil {
		in.broken = true
		for _, known := range []error{errKilled, errSpun} {
			if errors.Is(err, known) {
				return 0, known
			}
		}
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if len(res) == 0 {
		return 0, nil
	}
	return res[0], nil
}

// bodies are what the host does for HiGHS. Results of the C library's calls are
// 0 for success and -1, or a number of an error, for none: HiGHS has no files.
func bodies() map[string]api.GoModuleFunc {
	self := func(ctx context.Context) *instance { return ctx.Value(instanceKey{}).(*instance) }
	refuse := func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = api.EncodeI32(-1) }
	succeed := func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = 0 }
	nothing := func(context.Context, api.Module, []uint64) {}
	end := func(what string) api.GoModuleFunc {
		return func(context.Context, api.Module, []uint64) { panic(errors.New(what)) }
	}
	millis := func(ctx context.Context, _ api.Module, stack []uint64) {
		stack[0] = api.EncodeF64(self(ctx).now() * 1e3)
	}
	return map[string]api.GoModuleFunc{
		"_emscripten_get_now":  millis,
		"_emscripten_date_now": millis,
		"_clock_time_get": func(ctx context.Context, m api.Module, stack []uint64) { // clock, precision, where to
			ok := m.Memory().WriteUint64Le(uint32(stack[2]), uint64(self(ctx).now()*1e9))
			stack[0] = errno(ok)
		},
		"_environ_sizes_get": func(_ context.Context, m api.Module, stack []uint64) { // no variables of no length
			ok := m.Memory().WriteUint32Le(uint32(stack[0]), 0) && m.Memory().WriteUint32Le(uint32(stack[1]), 0)
			stack[0] = errno(ok)
		},
		"_environ_get": succeed,
		"_emscripten_resize_heap": func(_ context.Context, m api.Module, stack []uint64) {
			size, want := uint64(m.Memory().Size()), uint64(uint32(stack[0]))
			stack[0] = 0
			// A fifth more than was asked for, so that a growing model does not copy it often.
			for _, to := range []uint64{max(want, min(size+size/5, want+64<<20)), want} {
				if _, ok := m.Memory().Grow(uint32((to - size + pageBytes - 1) / pageBytes)); ok {
					stack[0] = 1
					return
				}
			}
		},
		"_fd_write": func(ctx context.Context, m api.Module, stack []uint64) {
			stack[0] = errno(self(ctx).write(m.Memory(), stack))
		},

		"___cxa_throw":                         end("HiGHS ran out of memory or broke"),
		"__abort_js":                           end("HiGHS aborted"),
		"_exit":                                end("HiGHS left"),
		"_proc_exit":                           end("HiGHS left"),
		"___syscall_fcntl64":                   refuse,
		"___syscall_ioctl":                     refuse,
		"___syscall_openat":                    refuse,
		"_fd_close":                            refuse,
		"_fd_read":                             refuse,
		"_fd_seek":                             refuse,
		"__setitimer_js":                       refuse,
		"__tzset_js":                           nothing,
		"__emscripten_runtime_keepalive_clear": nothing,
	}
}

func errno(ok bool) uint64 {
	if ok {
		return 0
	}
	return 28 // invalid argument
}

// write keeps the end of what HiGHS says, for errors: descriptor, vectors, their
// number, where to write how much was taken.
func (in *instance) write(mem api.Memory, args []uint64) bool {
	const most = 2000
	total := uint32(0)
	for i := range uint32(args[2]) {
		at, ok1 := mem.ReadUint32Le(uint32(args[1]) + 8*i)
		n, ok2 := mem.ReadUint32Le(uint32(args[1]) + 8*i + 4)
		text, ok3 := mem.Read(at, n)
		if !ok1 || !ok2 || !ok3 {
			return false
		}
		in.said = append(in.said, text...)
		in.said = in.said[max(0, len(in.said)-most):]
		total += n
	}
	return mem.WriteUint32Le(uint32(args[3]), total)
}

// host gives the runtime the functions that HiGHS imports, with the types that
// it imports them with.
func (p *program) host(ctx context.Context) error {
	have := bodies()
	builder := p.runtime.NewHostModuleBuilder("a")
	long := map[string]string{}
	for name, short := range imported {
		long[short] = name
	}
	for _, f := range p.code.ImportedFunctions() {
		module, short, _ := f.Import()
		body := have[long[short]]
		if module != "a" || body == nil {
			return fmt.Errorf("it imports %s.%s (%s), which is not known", module, short, long[short])
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(body, f.ParamTypes(), f.ResultTypes()).Export(short)
	}
	_, err := builder.Instantiate(ctx)
	return err
}
