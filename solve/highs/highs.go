// Package highs solves the models of package solve with HiGHS, a solver for
// linear and mixed-integer programs, compiled to WebAssembly and run inside this
// process by wazero: there is nothing to install, and no cgo.
//
// Nouns: an Engine has the compiled solver and a small pool of instances of it;
// an instance has a memory of its own and solves one model at a time.
//
// The same model gives the same bits on every machine and in every run: WebAssembly
// says what each operation on numbers gives, HiGHS runs with one thread and one
// seed, and its clock stands still. The clock is also how a search is ended:
// HiGHS reads it wherever it asks itself whether to go on. Each such question is a
// step (solve.Options.Steps), and when time is up, by steps or by the wall, the
// clock jumps to the end of time, and HiGHS hands over the best it has.
//
// Sources: HiGHS, https://highs.dev, from the npm package highs (see the folder
// licenses); Huangfu and Hall, "Parallelizing the dual revised simplex method",
// Mathematical Programming Computation 2018.
package highs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/norn-scheduler/norn/solve"
)

//go:embed highs.wasm.zst
var packed []byte

// Options say how an Engine runs. The zero Options are fit for use.
type Options struct {
	// CacheDir keeps the machine code that HiGHS was compiled to, so that the next
	// process need not compile it again. Empty: the folder "norn" of the user's cache.
	// A folder that cannot be used is done without.
	CacheDir string
	NoCache  bool // keep nothing on disk

	// Memory is the most that one instance may use, in bytes; 0 is 2 GiB. A program
	// that needs more fails.
	Memory int64
}

const (
	pageBytes     = 1 << 16
	defaultMemory = 2 << 30
	keepInstances = 4         // idle ones
	keepBytes     = 256 << 20 // an instance that has grown beyond this is not kept: memories never shrink
)

// Engine solves models. It may be used by several goroutines at once, each of
// which then has an instance of its own.
type Engine struct {
	options Options
	load    func() (*program, error)

	mu   sync.Mutex
	idle []*instance
}

// program is HiGHS, compiled.
type program struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// New makes an Engine. HiGHS is compiled when the first model is solved.
func New(o Options) *Engine {
	e := &Engine{options: o}
	e.load = sync.OnceValues(e.compile)
	return e
}

// Shared is the one Engine with zero Options that the parts of a process share,
// so that HiGHS is compiled once.
func Shared() *Engine { return shared() }

var shared = sync.OnceValue(func() *Engine { return New(Options{}) })

// Solve solves a model, however long it takes. Errors are of type *solve.Error.
func (e *Engine) Solve(m *solve.Model, o solve.Options) (*solve.Solution, error) {
	if s, err := solve.Precheck(m, &o); s != nil || err != nil {
		return s, err
	}
	return e.run(m, &o, nil)
}

// Load compiles HiGHS now and not with the first model.
func (e *Engine) Load() error {
	_, err := e.load()
	return err
}

// SolveContext is Solve with an end: when ctx ends it returns at once, with a
// solve.Interrupted. HiGHS stops, in the background, the next time it reads its clock.
func (e *Engine) SolveContext(ctx context.Context, m *solve.Model, o solve.Options) (*solve.Solution, error) {
	return e.within(ctx, 0, m, o)
}

// Within is a Solver whose every answer comes within limit: of the best
// solution found after nine tenths of it, or else solve.Interrupted at its end.
// Its answers depend on the speed of the machine: it is for a live world.
func (e *Engine) Within(limit time.Duration) solve.Solver { return bounded{e, limit} }

type bounded struct {
	engine *Engine
	limit  time.Duration
}

func (b bounded) Solve(m *solve.Model, o solve.Options) (*solve.Solution, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.limit)
	defer cancel()
	return b.engine.within(ctx, b.limit-b.limit/10, m, o)
}

// within solves in a goroutine, asks for what there is after soft, and leaves
// when ctx ends.
func (e *Engine) within(ctx context.Context, soft time.Duration, m *solve.Model, o solve.Options) (*solve.Solution, error) {
	if ctx.Done() == nil && soft == 0 {
		return e.Solve(m, o)
	}
	if s, err := solve.Precheck(m, &o); s != nil || err != nil {
		return s, err
	}
	type answer struct {
		s   *solve.Solution
		err error
	}
	// The caller may change the model as soon as we return, so a search that is left
	// behind must not look at it again: it has all it needs once it has passed it on.
	halt := &brake{read: make(chan struct{})}
	done := make(chan answer, 1)
	go func() {
		s, err := e.run(m, &o, halt)
		done <- answer{s, err}
	}()
	if soft > 0 {
		timer := time.AfterFunc(soft, func() { halt.stop.Store(true) })
		defer timer.Stop()
	}
	select {
	case a := <-done:
		return a.s, a.err
	case <-ctx.Done():
		halt.leave()
		return nil, m.Fault(solve.Interrupted, "%v", context.Cause(ctx))
	}
}

// run solves a model that Precheck has passed in an instance that is free, or a
// new one.
func (e *Engine) run(m *solve.Model, o *solve.Options, halt *brake) (*solve.Solution, error) {
	in, err := e.take()
	if err != nil {
		return nil, m.Fault(solve.Failed, "%v", err)
	}
	if !halt.begin() {
		e.put(in)
		return nil, m.Fault(solve.Interrupted, "the search was given up")
	}
	s, err := in.solve(m, o, halt)
	if in.broken || in.memory.Size() > keepBytes {
		in.close()
		return s, err
	}
	e.put(in)
	return s, err
}

func (e *Engine) take() (*instance, error) {
	e.mu.Lock()
	if n := len(e.idle); n > 0 {
		in := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		return in, nil
	}
	e.mu.Unlock()
	p, err := e.load()
	if err != nil {
		return nil, err
	}
	return p.instantiate()
}

func (e *Engine) put(in *instance) {
	e.mu.Lock()
	keep := len(e.idle) < keepInstances
	if keep {
		e.idle = append(e.idle, in)
	}
	e.mu.Unlock()
	if !keep {
		in.close()
	}
}

// unpack gives the wasm file.
func unpack() ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(packed, nil)
}

// compile makes machine code of HiGHS, or finds it where the last process left it.
func (e *Engine) compile() (*program, error) {
	wasm, err := unpack()
	if err != nil {
		return nil, fmt.Errorf("HiGHS cannot be unpacked: %w", err)
	}
	memory := e.options.Memory
	if memory <= 0 {
		memory = defaultMemory
	}
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(min(memory, 4<<30) / pageBytes))
	if cache := e.cache(); cache != nil {
		config = config.WithCompilationCache(cache)
	}
	ctx := context.Background()
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	p.code, err = p.runtime.CompileModule(ctx, wasm)
	if err == nil {
		err = p.host(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("HiGHS cannot be compiled: %w", err), p.runtime.Close(ctx))
	}
	return p, nil
}

// cache is where compiled code is kept, or nil.
func (e *Engine) cache() wazero.CompilationCache {
	if e.options.NoCache {
		return nil
	}
	dir := e.options.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(base, "norn")
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil
	}
	return cache
}

// instantiate gives HiGHS a memory.
func (p *program) instantiate() (*instance, error) {
	in := &instance{}
	in.ctx = context.WithValue(context.Background(), instanceKey{}, in)
	mod, err := p.runtime.InstantiateModule(in.ctx, p.code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("HiGHS cannot be started: %w", err)
	}
	in.module, in.memory = mod, mod.ExportedMemory(exported["memory"])
	in.functions = map[string]api.Function{}
	if _, err := in.call("start"); err != nil {
		in.close()
		return nil, fmt.Errorf("HiGHS cannot be started: %w", err)
	}
	return in, nil
}
