package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// queuePolicies are those under which a long queue is tried.
var queuePolicies = []string{"fifo(mode=easy)", "srtf", "tiresias", "drf", "fairshare"}

// queue is what calls take while 10,000 jobs wait.
func (l *live) queue(w io.Writer, dir string) error {
	const queued, bound = 10_000, 50 * time.Millisecond
	fmt.Fprintf(w, "### With 10,000 jobs in the queue\n\n"+
		"Call of a client, least, median and p95 of 100 (submit) and 30 (list); `norn ps` is the whole program; a scheduling pass is the decision of the\n"+
		"policy on a submission, the mean. The queue was filled by 16 clients.\n\n"+
		"| policy | filled at | submit | | | list | | | norn ps | pass | bound | |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|\n")
	for i, policy := range queuePolicies {
		at := filepath.Join(dir, strconv.Itoa(i))
		if err := execute("mkdir", at); err != nil {
			return err
		}
		q, err := l.queueUnder(policy, at, queued)
		if err != nil {
			return fmt.Errorf("%s: %w", policy, err)
		}
		ok := q.submit.median() < bound && q.list.median() < bound && q.pass < bound
		fmt.Fprintf(w, "| %s | %.0f/s | %s | %s | %s | %s | 50 ms | %s |\n", policy, q.rate, q.submit.cells(), q.list.cells(), millis(q.ps.median()), millis(q.pass), verdict(ok))
	}
	fmt.Fprintln(w)
	return nil
}

type queueFigures struct {
	rate             float64 // submissions in a second while it was filled
	submit, list, ps spread
	pass             time.Duration
}

func (l *live) queueUnder(policy, dir string, queued int) (*queueFigures, error) {
	b, err := newBox(l.bin, dir, policy)
	if err != nil {
		return nil, err
	}
	defer b.discard()
	q := &queueFigures{}
	if q.rate, err = b.fill(queued); err != nil {
		return nil, err
	}
	ctx := context.Background()
	before, err := b.passes()
	if err != nil {
		return nil, err
	}
	for i := range 100 {
		began := time.Now()
		if _, err := b.Submit(ctx, queuedJob(i)); err != nil {
			return nil, err
		}
		q.submit.add(time.Since(began))
	}
	after, err := b.passes()
	if err != nil {
		return nil, err
	}
	q.pass = time.Duration((after.sum - before.sum) / (after.count - before.count) * 1e9)
	for range 30 {
		began := time.Now()
		jobs, err := b.Jobs(ctx, api.Query{})
		if err != nil || len(jobs) < queued {
			return nil, fmt.Errorf("%d jobs are listed: %w", len(jobs), err)
		}
		q.list.add(time.Since(began))
	}
	for range 7 {
		began := time.Now()
		if out, err := exec.Command(b.bin, "ps", "--server", b.socket()).Output(); err != nil || strings.Count(string(out), "\n") < queued {
			return nil, fmt.Errorf("norn ps prints %d bytes: %w", len(out), err)
		}
		q.ps.add(time.Since(began))
	}
	return q, nil
}

// fill has a job hold all devices and others wait for it.
func (b *box) fill(queued int) (rate float64, err error) {
	ctx := context.Background()
	holder := spec("sleep", "100000")
	holder.GPUs, holder.Estimate = api.Fixed(slots), 1
	if _, err := b.Submit(ctx, holder); err != nil {
		return 0, err
	}
	began := time.Now()
	var all sync.WaitGroup
	errs := make(chan error, 16)
	const clients = 16
	for c := range clients {
		all.Go(func() {
			for i := c; i < queued; i += clients {
				if _, err := b.Submit(ctx, queuedJob(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(queued) / time.Since(began).Seconds(), nil
	}
}

// queuedJob is one of jobs of many sizes and estimates.
func queuedJob(i int) api.JobSpec {
	s := spec("true")
	s.Name, s.GPUs, s.Estimate = fmt.Sprint("job", i%97), api.Fixed(float64(1+i%slots)), api.Seconds(60+7*i%36000)
	return s
}

// passes are the decisions of the policy so far.
type passes struct{ sum, count float64 }

func (b *box) passes() (p passes, err error) {
	text, err := b.metrics()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch v, _ := strconv.ParseFloat(value, 64); name {
		case "norn_decision_seconds_sum":
			p.sum = v
		case "norn_decision_seconds_count":
			p.count = v
		}
	}
	return p, err
}

// metrics is what the daemon tells Prometheus.
func (b *box) metrics() (string, error) {
	conn, err := net.Dial("unix", b.socket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: norn\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// discard ends what runs, and then the daemon; the queue is thrown away with the
// folder.
func (b *box) discard() {
	ctx := context.Background()
	b.Drain(ctx, api.Drain{})
	jobs, _ := b.Jobs(ctx, api.Query{States: []api.State{api.Running}})
	for _, j := range jobs {
		b.Do(ctx, "cancel", j.ID)
	}
	until("the jobs that ran have ended", 10*time.Second, func() (bool, error) {
		left, err := b.Jobs(ctx, api.Query{States: []api.State{api.Running}})
		return len(left) == 0, err
	})
	b.cmd.Process.Kill()
	b.cmd.Wait()
}
