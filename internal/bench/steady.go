package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// steady is a daemon that runs short jobs for many minutes.
func (l *live) steady(w io.Writer, dir string) error {
	const rate = 1000 // jobs in a minute
	b, err := newBox(l.bin, dir, "")
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Fprintf(w, "### %d short jobs (`true`) a minute for %d minutes\n\n"+
		"| minute | jobs done | waiting | submit, median | p95 | memory | CPU of the daemon, ms a job |\n|--:|--:|--:|--:|--:|--:|--:|\n", rate, l.minutes)
	marks := []int{1, 3, 5, 7, 10, 15, 20, 30, 60}
	pid := b.cmd.Process.Pid
	ctx := context.Background()
	began, cpu := time.Now(), cpuOf(pid)
	var calls spread
	var rss []int64
	for n := 0; n < l.minutes*rate; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Minute / rate)))
		call := time.Now()
		if _, err := b.Submit(ctx, spec("true")); err != nil {
			return err
		}
		calls.add(time.Since(call))
		if minute := (n + 1) / rate; (n+1)%rate == 0 && (slices.Contains(marks, minute) || minute == l.minutes) {
			s, err := b.Status(ctx)
			if err != nil {
				return err
			}
			now := cpuOf(pid)
			rss = append(rss, readStat(pid).rss)
			fmt.Fprintf(w, "| %d | %d | %d | %s | %s | %s | %.2f |\n", minute, s.Ended, s.Waiting, millis(calls.median()), millis(calls.p95()),
				mib(rss[len(rss)-1]), float64(now-cpu)/1e6/float64(len(calls)))
			calls, cpu = nil, now
		}
	}
	return l.steadyEnd(w, b, began, rate, rss)
}

// steadyEnd says whether the pace was kept, and the memory flat.
func (l *live) steadyEnd(w io.Writer, b *box, began time.Time, rate int, rss []int64) error {
	if err := b.drained(time.Minute); err != nil {
		return err
	}
	took := time.Since(began)
	all, err := b.Jobs(context.Background(), api.Query{All: true, States: []api.State{api.Done}})
	if err != nil {
		return err
	}
	want := l.minutes * rate
	kept := len(all) == want && took < time.Duration(l.minutes)*time.Minute+5*time.Second
	growth := float64(slices.Max(rss)) / float64(rss[0])
	fmt.Fprintf(w, "\n%d of %d jobs were done %.1f s after the first was submitted: %s. Memory at its highest is %.2f times that of the first mark: %s (bound 1.5).\n\n",
		len(all), want, took.Seconds(), verdict(kept), growth, verdict(growth < 1.5))
	return nil
}

// idle is what a daemon costs that has nothing to do.
func (l *live) idle(w io.Writer, dir string) error {
	b, err := newBox(l.bin, dir, "")
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Fprintf(w, "### A daemon with nothing to do, over 60 s\n\n"+
		"Memory is the resident set, and of that what is not the text of the program, which all of its processes share.\n\n"+
		"| | memory | its own | runners, own memory of each | CPU of the daemon | of the runners | bound | |\n|---|--:|--:|--:|--:|--:|---|---|\n")
	for _, jobs := range []int{0, slots} {
		for range jobs {
			if _, err := b.Submit(context.Background(), spec("sleep", "1000")); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Second)
		if err := b.idleOnce(w, jobs); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return nil
}

func (b *box) idleOnce(w io.Writer, jobs int) error {
	const span = 60 * time.Second
	pid := b.cmd.Process.Pid
	sum := func() (own, others time.Duration) {
		for _, r := range b.kept {
			others += cpuOf(r)
		}
		return cpuOf(pid), others
	}
	var err error
	if b.kept, err = b.runners(); err != nil {
		return err
	}
	own, others := sum()
	time.Sleep(span)
	own2, others2 := sum()
	rss := readStat(pid).rss
	var runners int64
	for _, r := range b.kept {
		runners += anonymous(r)
	}
	part := float64(own2-own) / float64(span)
	fmt.Fprintf(w, "| %d jobs running | %s | %s | %d of %s | %.3f %% | %.3f %% | 30 MB, 0.1 %% | %s |\n", jobs, mib(rss), mib(anonymous(pid)),
		len(b.kept), mib(runners/int64(max(1, len(b.kept)))), 100*part, 100*float64(others2-others)/float64(span), verdict(rss < 30e6 && part < 0.001))
	return nil
}

// runners are the runners of this daemon's program.
func (b *box) runners() ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []int
	for _, d := range dirs {
		text, err := os.ReadFile(d)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if args := bytes.Split(text, []byte{0}); len(args) > 1 && string(args[0]) == b.bin && string(args[1]) == "runner" {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out, err
}

// anonymous is the memory of a process that is its own, not the text of the
// program.
func anonymous(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("RssAnon:")); ok {
			kib, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib << 10
		}
	}
	return 0
}
