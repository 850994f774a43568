package report

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
)

const jobsHeader = "job,tenant,gpus,submit_s,first_start_s,end_s,jct_s,wait_s,run_s,preemptions,migrations,state," +
	"user,name,model,true_s,type,rho,lost_gpu_s,first_reason,kind,latency_kept\n"

// WriteJobs writes one CSV line for each job of a run, in order of submission. The state must
// be the one that the result is of.
// A line has the job's key (its number if it has none), its tenant, the GPUs
// that it asked for, and its times in seconds, exactly. Unknown values are left
// empty. For a job that has not ended, wait_s and run_s count up to now.
//
// truth says what a simulation knows of a job; nil where nobody does. Without Options.Series,
// the type, rho and the first reason are not known.
func (r *Result) WriteJobs(w io.Writer, s *state.State, truth func(job.ID) *trace.Truth) error {
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(jobsHeader)
	var line []byte
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Past {
			continue
		}
		d := detail{}
		if int(id) < len(r.details) {
			d = r.details[id]
		}
		line = append(appendJob(line[:0], s, s.Record(id)), ',')
		if line = appendNames(line, s.Record(id).Job); truth != nil {
			line = unit.AppendSeconds(line, truth(id).Total())
		}
		line = r.appendKind(d.append(append(line, ','), s, s.Record(id)), s, id)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendNames writes who submitted a job, and what it is called and trains.
func appendNames(b []byte, j *job.Job) []byte {
	for _, text := range []string{j.User, j.Name, j.Model} {
		b = append(appendField(b, text), ',')
	}
	return b
}

// appendKind writes the kind of a job and the part of its time within its target, and ends the line.
func (r *Result) appendKind(b []byte, s *state.State, id job.ID) []byte {
	of := s.Record(id)
	b = append(append(append(b, ','), of.Job.Kind.String()...), ',')
	if kept, life, known := r.late.share(of, s.Now); known {
		b = strconv.AppendFloat(b, rounded(kept.Seconds()/life.Seconds(), 1e6), 'f', -1, 64)
	}
	return append(b, '\n')
}

// append writes the GPU types, rho, the GPU time lost, and why the job first waited.
func (d *detail) append(b []byte, s *state.State, r *job.Record) []byte {
	var types []string
	for t := range cluster.TypeID(s.Cluster.Types()) {
		if d.types != 0 && d.types.Has(t) {
			types = append(types, s.Cluster.Type(t).Name)
		}
	}
	b = append(appendField(b, strings.Join(types, "+")), ',')
	if d.rho > 0 {
		b = strconv.AppendFloat(b, rounded(d.rho, 1e6), 'f', -1, 64)
	}
	b = append(b, ',')
	b = strconv.AppendFloat(b, rounded(lost(r, s.Now), 1e3), 'f', -1, 64)
	b = append(b, ',')
	if d.first != job.NoReason {
		b = append(b, d.first.String()...)
	}
	return b
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
	return append(b, r.Phase.String()...)
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
