package report

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

const jobsHeader = "job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state\n"

// WriteJobs writes one CSV line for each job of a run, in order of submission.
// A line has the job's key (its number if it has none), its tenant, the GPUs
// that it asked for, and its times in seconds, exactly. Unknown values are left
// empty. For a job that has not ended, wait_s and run_s count up to now.
func WriteJobs(w io.Writer, s *state.State) error {
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(jobsHeader)
	var line []byte
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Past {
			continue
		}
		line = appendJob(line[:0], s, s.Record(id))
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

func appendJob(b []byte, s *state.State, r *job.Record) []byte {
	j := r.Job
	b = append(appendField(b, jobKey(j)), ',')
	b = append(appendField(b, j.Tenant), ',')
	b = append(b, s.Class(r.Class).Amount.GPU.String()...)
	b = append(b, ',')
	b = append(unit.AppendSeconds(b, j.Submit), ',')
	if r.FirstStart >= 0 {
		b = unit.AppendSeconds(b, r.FirstStart)
	}
	b = append(b, ',')
	if r.End >= 0 {
		b = append(unit.AppendSeconds(b, r.End), ',')
		b = unit.AppendSeconds(b, r.End-j.Submit)
	} else {
		b = append(b, ',')
	}
	b = append(b, ',')
	b = append(unit.AppendSeconds(b, r.WaitAt(s.Now)), ',')
	b = append(unit.AppendSeconds(b, r.AllocatedAt(s.Now)), ',')
	b = append(strconv.AppendInt(b, int64(r.Preemptions), 10), ',')
	b = append(strconv.AppendInt(b, int64(r.Migrations), 10), ',')
	b = append(b, r.Phase.String()...)
	return append(b, '\n')
}

// jobKey is what the reader knows a job by.
func jobKey(j *job.Job) string {
	if j.Key == "" {
		return strconv.Itoa(int(j.ID))
	}
	return j.Key
}

// appendField writes a CSV field, quoted where RFC 4180 asks for it.
func appendField(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && s == strings.TrimSpace(s) {
		return append(b, s...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}
