package selftest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/local/rundir"
)

// Verb is the hidden verb of norn by which a job of a self-test is started:
// norn selftest-job TASK.
const Verb = "selftest-job"

// task is what a job has to do, as the word behind Verb has it in JSON.
type task struct {
	Name  string // of its notes
	Notes string // folder
	GPU   bool   // it works on the first GPU that it sees, else on processors
	Look  bool   // it notes which GPUs it sees
	Open  []string
	Bytes int64 // memory that it holds
	More  int64 // that its first run holds beside that
	Load  bool  // it computes all the time
	Limit bool  // it takes more processors and memory than it may, instead of working
}

// note is what a run of a job tells of itself, again and again.
type note struct {
	PID, Parent int
	Visible     string   // value of CUDA_VISIBLE_DEVICES
	GPUs        []string // UUIDs that it sees, in CUDA's order
	Opened      []string // of the files that it was to open
	Error       string   // why it could not work
	From, Steps int      // steps at its start, and now
	Digest      uint32   // of the vector; once it has ended or left
	Intact      bool     // the memory that it held had its pattern at the end
	Held        int64    // bytes
	Over        bool     // it has ended or left
	Free, Total int64    // memory of its GPU, as CUDA has it
	// Multiprocessors of the GPU that it may use.
	Multiprocessors int
	Cores           float64 // processors that it could use, of as many as there are
	// Of a PyTorch job: its version, its device, and the loss at the end in hexadecimal.
	Torch, Device, Loss string
}

// state is what is kept of a job for its next run.
type state struct {
	Steps  int
	Vector []uint32
}

const (
	pace  = 10 * time.Millisecond  // of steps, unless it computes all the time
	often = 100 * time.Millisecond // between two notes
	again = 75                     // exit code: continue me later
)

// Main is a job of a self-test, and returns its exit code. Told to stop by SIGTERM it
// saves its state, and goes on from there when it is started again. It ends when it
// finds the file NAME.end among the notes.
func Main(arg string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	w := &worker{stop: stop}
	if err := json.Unmarshal([]byte(arg), &w.task); err != nil {
		fmt.Fprintln(os.Stderr, "norn:", err)
		return 2
	}
	w.note = note{PID: os.Getpid(), Parent: os.Getppid(), Visible: os.Getenv(rundir.EnvVisible)}
	code, err := w.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "norn:", err)
		w.note.Error = err.Error()
		w.write()
		return 1
	}
	return code
}

// worker is a job as it runs.
type worker struct {
	task
	note note
	stop <-chan os.Signal
	place
}

func (w *worker) path(name string) string { return filepath.Join(w.Notes, w.Name+"."+name) }

// run does what is to be done, and returns the exit code.
func (w *worker) run() (int, error) {
	if w.Look {
		ids, err := visibleGPUs()
		if err != nil {
			return 0, err
		}
		w.note.GPUs = ids
	}
	for _, path := range w.Open {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			f.Close()
			w.note.Opened = append(w.note.Opened, path)
		}
	}
	if w.Limit {
		return 0, w.overdo()
	}
	var err error
	if w.place = place(&processors{}); w.GPU {
		if w.place, err = openGPU(); err != nil {
			return 0, err
		}
	}
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.work()
}

// begin takes up the work where the last run left it, and holds the memory.
func (w *worker) begin() error {
	words, _ := w.size()
	s := state{Vector: beginning(words)}
	if ok, err := rundir.Read(w.Notes, w.Name+".state", &s); err != nil || ok && len(s.Vector) != words {
		return fmt.Errorf("%s cannot be read: %w", w.path("state"), err)
	}
	if err := w.put(s.Vector); err != nil {
		return err
	}
	w.note.From, w.note.Steps = s.Steps, s.Steps
	w.note.Held = w.Bytes
	if os.Getenv(rundir.EnvRun) == "1" {
		w.note.Held += w.More
	}
	if w.note.Held > 0 {
		return w.hold(w.note.Held)
	}
	return nil
}

// work computes until it is told to stop, or to end.
func (w *worker) work() (int, error) {
	told, saved := time.Time{}, time.Now()
	for {
		if err := w.compute(); err != nil {
			return 0, err
		}
		w.note.Steps++
		if time.Since(told) > often {
			if err := w.tell(&w.note); err != nil {
				return 0, err
			}
			w.write()
			told = time.Now()
		}
		if !w.Load && time.Since(saved) > 10*often {
			if _, err := w.save(); err != nil {
				return 0, err
			}
			saved = time.Now()
		}
		if !w.Load {
			time.Sleep(pace)
		}
		select {
		case <-w.stop:
			return again, w.leave()
		default:
			if _, err := os.Stat(w.path("end")); err == nil {
				return 0, w.leave()
			}
		}
	}
}

// save keeps the state for the next run.
func (w *worker) save() (state, error) {
	words, _ := w.size()
	s := state{w.note.Steps, make([]uint32, words)}
	if err := w.take(s.Vector); err != nil {
		return s, err
	}
	return s, write(w.path("state"), s)
}

// leave keeps the state, and tells what has come of the work.
func (w *worker) leave() error {
	s, err := w.save()
	if err != nil {
		return err
	}
	if w.note.Intact, err = w.intact(); err != nil {
		return err
	}
	w.note.Digest, w.note.Over = digest(s.Vector), true
	w.write()
	return nil
}

// write writes the note.
func (w *worker) write() {
	if err := write(w.path(os.Getenv(rundir.EnvRun)), w.note); err != nil {
		fmt.Fprintln(os.Stderr, "norn:", err)
	}
}

// write replaces a file as a whole. It need not survive the machine.
func write(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Of a job that takes more than it may.
const (
	burnFor  = 2 * time.Second
	mouthful = 8 << 20
	greed    = 512 << 20
)

// overdo computes with two processors for a while, and then takes memory until it is
// killed, or has had more than enough.
func (w *worker) overdo() error {
	end := time.Now().Add(burnFor)
	before := cpuTime()
	for range 2 {
		go func() {
			for x := uint32(1); time.Now().Before(end); {
				for range 1 << 16 {
					x = factor*x + increment
				}
				runtime.KeepAlive(x)
			}
		}()
	}
	began := time.Now()
	time.Sleep(time.Until(end))
	w.note.Cores = (cpuTime() - before).Seconds() / time.Since(began).Seconds()
	p := &processors{}
	for w.note.Held < greed {
		w.write()
		if err := p.hold(mouthful); err != nil {
			return err
		}
		w.note.Held += mouthful
	}
	w.note.Over = true
	w.write()
	runtime.KeepAlive(p)
	return nil
}

// noteOf is what a run of a job has told; ok is false while it has told nothing.
func noteOf(dir, name string, run int) (n note, ok bool, err error) {
	ok, err = rundir.Read(dir, name+"."+strconv.Itoa(run), &n)
	return n, ok, err
}
