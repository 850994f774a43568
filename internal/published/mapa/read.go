package mapa

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// task is a job as the simulator knows it.
type task struct {
	gpus      int
	pattern   string
	seconds   int64
	sensitive bool
	has       *candidate // since it started
}

// workload is a trace.
type workload struct {
	jobs  harness.Jobs
	tasks []task // by number
}

// readTrace reads a trace: six fields a line and no header, GPUs, pattern, arrival, seconds, 0 or 1
// for sensitive, and a script. Arrivals are not used: all jobs are there at the start.
func readTrace(path string) (*workload, error) {
	text, err := harness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readText(filepath.Base(path), text)
}

func readText(name, text string) (*workload, error) {
	w := &workload{}
	var shapes job.Interner
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		t, err := readTask(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, i+1, err)
		}
		w.tasks = append(w.tasks, t)
		w.jobs = append(w.jobs, trace.Entry{
			Job:   job.Job{Key: strconv.Itoa(i), Demand: shapes.Get(job.GPUs(t.gpus)), Retries: -1},
			Truth: trace.Truth{Work: harness.Seconds(t.seconds)},
		})
	}
	w.jobs.Sort()
	return w, nil
}

// mostCandidates bounds the candidates that are looked at for a job.
const mostCandidates = 1_000_000

// check refuses jobs for which the code would look at more candidates than fit in memory. Those that
// are larger than the machine wait for ever.
func (w *workload) check(m *machine) error {
	for i := range w.tasks {
		all := 1
		for k := range min(w.tasks[i].gpus, m.n) {
			all *= m.n - k
			if w.tasks[i].gpus <= m.n && all > mostCandidates {
				return fmt.Errorf("job %d: there are more than %d orders of %d of %d GPUs", i, mostCandidates, w.tasks[i].gpus, m.n)
			}
		}
	}
	return nil
}

func readTask(line string) (task, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 6 {
		return task{}, fmt.Errorf("%d fields; GPUs, pattern, arrival, seconds, sensitive and script are needed", len(fields))
	}
	gpus, ok := harness.Digits(fields[0])
	if !ok || gpus < 1 || gpus > 16 {
		return task{}, fmt.Errorf("%q is not a number of GPUs from 1 to 16", fields[0])
	}
	seconds, ok := harness.Digits(fields[3])
	if !ok || seconds > harness.MaxSeconds {
		return task{}, fmt.Errorf("%q is not a number of seconds", fields[3])
	}
	t := task{gpus: int(gpus), pattern: fields[1], seconds: seconds}
	switch t.pattern {
	case "ring", "clique", "star": // the code knows the links of "ring" and "all" alone, and matches the others
	default:
		return task{}, fmt.Errorf("pattern %q; ring, clique and star are known", t.pattern)
	}
	switch fields[4] {
	case "0":
	case "1":
		t.sensitive = true
	default:
		return task{}, fmt.Errorf("sensitive is %q; write 0 or 1", fields[4])
	}
	return t, nil
}
