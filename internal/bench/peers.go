package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peer is a scheduler of one machine, used as its users do: by its commands. All
// run with four slots.
type peer interface {
	name() string                 // with its version
	up(dir string) error          // starts it, on folders of its own
	down()                        // ends it and what it has queued
	submit(shell string) []string // the command that submits a line for the shell
	list() []string               // the command that lists the queue
	left() (int, error)           // jobs that wait or run
}

// compare has the peers that are installed do the same beside norn.
func (l *live) compare(w io.Writer, dir string) error {
	fmt.Fprintf(w, "### Beside other schedulers\n\n"+
		"All by their commands, as whole processes, on four slots: `date` submitted 30 times at an empty queue, until the command returns\n"+
		"and until the job has said what time it is; 200 jobs that do nothing, submitted one after the other, until all are done; and the\n"+
		"command that lists the queue, best of five, its output thrown away.\n\n"+
		"| | submit | | | until it runs | | | 200 short jobs | list 1,000 | list 10,000 | 10,000 were submitted in |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, p := range []peer{&nornPeer{bin: l.bin}, &spooler{}, &slurm{}} {
		at := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		name := p.name()
		if name == "" {
			continue
		}
		f, err := try(p, at)
		p.down()
		if err != nil {
			fmt.Fprintf(w, "| %s | not measured: %v |\n", name, err)
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", name, f.submit.cells(), f.runs.cells(), f.short, f.listed[0], f.listed[1], f.filled)
	}
	fmt.Fprintln(w)
	return nil
}

// peerFigures are what is measured of a peer.
type peerFigures struct {
	submit, runs  spread
	short, filled string
	listed        [2]string
}

func try(p peer, dir string) (*peerFigures, error) {
	if err := p.up(dir); err != nil {
		return nil, err
	}
	f := &peerFigures{}
	for i := range 31 {
		if err := tryOnce(p, f, filepath.Join(dir, "out"+strconv.Itoa(i)), i > 0); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	for range 200 {
		if err := quiet(p.submit("true")); err != nil {
			return nil, err
		}
	}
	if err := nothingLeft(p); err != nil {
		return nil, err
	}
	f.short = millis(time.Since(began))
	return f, queues(p, f)
}

// tryOnce submits one job at an empty queue.
func tryOnce(p peer, f *peerFigures, out string, counts bool) error {
	began := time.Now()
	if err := quiet(p.submit("date +%s%N >" + out)); err != nil {
		return err
	}
	took := time.Since(began)
	var at int64
	err := until("a job has run", time.Minute, func() (bool, error) {
		text, err := os.ReadFile(out)
		if err != nil {
			return false, nil
		}
		at, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	if counts { // the first one warms everything up
		f.submit.add(took)
		f.runs.add(time.Unix(0, at).Sub(began))
	}
	return nothingLeft(p)
}

func nothingLeft(p peer) error {
	return until("no job is left", 5*time.Minute, func() (bool, error) {
		n, err := p.left()
		return n == 0, err
	})
}

// queues lists long queues behind jobs that hold all slots.
func queues(p peer, f *peerFigures) error {
	for range slots {
		if err := quiet(p.submit("sleep 100000")); err != nil {
			return err
		}
	}
	queued := 0
	began := time.Now()
	for i, want := range []int{1000, 10_000} {
		full := ""
		for ; queued < want && full == ""; queued++ {
			if err := quiet(p.submit("true")); err != nil {
				full = fmt.Sprintf(" of %d, it takes no more", queued)
			} else if time.Since(began) > 5*time.Minute {
				full = fmt.Sprintf(" of %d, submitted in 5 min", queued)
			}
		}
		f.filled = millis(time.Since(began))
		best, err := quickest(p.list())
		f.listed[i] = millis(best) + full
		if err != nil || full != "" {
			return err
		}
	}
	return nil
}

// quickest runs a command five times.
func quickest(args []string) (time.Duration, error) {
	var s spread
	for range 5 {
		at := time.Now()
		if err := quiet(args); err != nil {
			return 0, err
		}
		s.add(time.Since(at))
	}
	return s.least(), nil
}

// quiet runs a command and throws its output away. One that does not come back
// has failed.
func quiet(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, said.String())
	}
	return nil
}

// lines counts what a command prints.
func lines(args []string, of func(line string) bool) (n int, err error) {
	out, err := exec.Command(args[0], args[1:]...).Output()
	for line := range strings.Lines(string(out)) {
		if of(line) {
			n++
		}
	}
	return n, err
}
