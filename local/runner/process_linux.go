package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// process is a line of /proc/PID/stat. While only the main thread has ended, its state
// and its environment are those of another thread.
type process struct {
	rundir.Proc
	parent, group, session int
	folder                 string // in /proc, of that thread
	state                  byte   // R, S, D, T, Z, ...
	threads                int    // the main one counts even when it has ended
	kernel                 bool   // it is a thread of the kernel
	envStart, envEnd       uint64 // where its environment is in memory; 0: it has none at the moment, or that may not be seen
	ticks                  uint64 // of CPU time, its own and that of children that have ended
	pages                  uint64 // of main memory
}

// ofKernel is the flag of threads of the kernel (PF_KTHREAD).
const ofKernel = 0x00200000

// ended tells whether the process has ended with all its threads, and only its parent
// has not taken note.
func (p process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// stopped tells whether it has been stopped by a signal.
func (p process) stopped() bool { return p.state == 'T' || p.state == 't' }

func readProcess(pid int) (process, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	p, err := readStat(folder)
	p.PID = pid
	if err != nil || !p.ended() || p.threads <= 1 {
		return p, err
	}
	// Its main thread has ended. The others use its memory and hold its files: they may go
	// on for long, or are about to end with it.
	threads, err := os.ReadDir(folder + "/task")
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	for _, name := range threads {
		if t, err := readStat(folder + "/task/" + name.Name()); err == nil && !t.ended() {
			p.folder, p.state, p.envStart, p.envEnd = t.folder, t.state, t.envStart, t.envEnd
			break
		}
	}
	return p, err
}

// readStat reads what is told of a process or a thread in a folder of /proc.
func readStat(folder string) (process, error) {
	b, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return process{}, err
	}
	p := process{folder: folder}
	// The name of the program, in brackets, may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, fmt.Errorf("%s/stat is not understood", folder)
	}
	number := func(i int) (n uint64) {
		if i < len(fields) {
			n, _ = strconv.ParseUint(string(fields[i]), 10, 64)
		}
		return n
	}
	p.state, p.kernel = fields[0][0], number(6)&ofKernel != 0
	p.parent, p.group, p.session, p.threads = int(number(1)), int(number(2)), int(number(3)), int(number(17))
	p.ticks = number(11) + number(12) + number(13) + number(14)
	p.pages, p.envStart, p.envEnd = number(21), number(47), number(48)
	p.Start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, err
}

// processes are all that can be seen.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	out := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // others have ended meanwhile
			out = append(out, p)
		}
	}
	return out, err
}

// ticksPerSecond is the unit of CPU times in /proc (USER_HZ), the same on all of
// Linux' machines.
const ticksPerSecond = 100

// Measure tells what runs have used, by their runners: all processes below each of
// them. A runner that has ended has used nothing.
func Measure(runners []rundir.Proc) ([]Usage, error) {
	out := make([]Usage, len(runners))
	all, err := processes()
	of := map[int]int{} // which run a process belongs to, from 1
	for i, r := range runners {
		of[r.PID] = i + 1
	}
	parents := map[int]int{}
	for _, p := range all {
		parents[p.PID] = p.parent
		if i := of[p.PID]; i > 0 && p.Start != runners[i-1].Start {
			delete(of, p.PID) // another process of its number
		}
	}
	for _, p := range all {
		above := p.PID
		for depth := 0; of[above] == 0 && above > 1 && depth < len(all); depth++ {
			above = parents[above]
		}
		if i := of[above]; i > 0 {
			out[i-1].CPU += time.Duration(p.ticks) * (time.Second / ticksPerSecond)
			if above != p.PID {
				out[i-1].Memory += api.Bytes(p.pages) * api.Bytes(os.Getpagesize())
				out[i-1].PIDs = append(out[i-1].PIDs, p.PID)
			}
		}
	}
	return out, err
}

// Proportional is the main memory of processes, of which what several of them share
// counts once. It takes longer than Measure; processes that have ended have none.
func Proportional(pids []int) (sum api.Bytes) {
	for _, pid := range pids {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				sum += api.Bytes(kib) << 10
				break
			}
		}
	}
	return sum
}

// descendants are the living processes below one.
func descendants(pid int) ([]process, error) {
	all, err := processes()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var out []process
	below := []int{pid}
	for len(below) > 0 {
		next := children[below[0]]
		below = below[1:]
		for _, p := range next {
			below = append(below, p.PID)
			if !p.ended() {
				out = append(out, p)
			}
		}
	}
	return out, err
}

// signalTo sends a signal to a process, and to no later one of its number. One that
// has ended is no error.
func signalTo(p rundir.Proc, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.ENOSYS): // before Linux 5.3
		if !Alive(p) {
			return nil
		}
		err = unix.Kill(p.PID, sig)
	case err == nil:
		defer unix.Close(fd)
		if !Alive(p) {
			return nil
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	return nil
}

// Alive tells whether a process is there and has not ended.
func Alive(p rundir.Proc) bool {
	now, err := readProcess(p.PID)
	return p.PID > 0 && err == nil && now.Start == p.Start && !now.ended()
}

// StartTime is when a process started, in clock ticks since the machine was
// booted.
func StartTime(pid int) (uint64, error) {
	p, err := readProcess(pid)
	return p.Start, err
}

// BootID names the time from one boot of the machine to the next; empty when it
// is not known.
func BootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// Launch starts the runner of a run in a session of its own, so that it outlives
// its parent, and returns its process number. Exe is the norn program, dir the
// folder of the run. The runner is a child of this process, which has to wait for
// it. It writes what goes wrong with itself to runner.log in the folder.
func Launch(exe, dir string) (pid int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, err
	}
	null, log, err := outputs(dir)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	defer log.Close()
	if pid, err = start(exe, dir, null, log); err != nil {
		return 0, fmt.Errorf("%s: %w", exe, err)
	}
	return pid, nil
}

// Poke tells the runner of a run to look at want.json again. One that has ended,
// or has not started its tasks, is no error: it looks when it has.
func Poke(dir string) error {
	var st rundir.Status
	if ok, err := rundir.Read(dir, rundir.StatusFile, &st); !ok || err != nil {
		return err
	}
	if st.Boot != BootID() {
		return nil
	}
	return signalTo(rundir.Proc{PID: st.PID, Start: st.Start}, unix.SIGUSR1)
}
