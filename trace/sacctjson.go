package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/norn-scheduler/norn/internal/jsontext"
)

// sacctJSON is an export of Slurm's accounting as sacct --json writes it, in the forms of
// Slurm 21.08 and later. Each job becomes the fields of a line of sacct --parsable2, which
// sacct.go reads.
func sacctJSON() Format {
	return Format{
		Name: "sacct-json", Aliases: []string{"slurm-json"}, Title: "Slurm accounting, sacct --json",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			if jobsOfSacct(h.Text) {
				return 600
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) {
			return &sacctJSONSource{in: in}, nil
		},
	}
}

// jobsOfSacct tells whether a text begins like an object with jobs, the first of which has
// a time and an association, as those of sacct have and those of squeue do not. The text
// may end anywhere.
func jobsOfSacct(text []byte) bool {
	t := jsontext.NewReader(text)
	first, found := map[string]bool{}, false
	_ = t.Object(func(key []byte) error {
		if string(key) != "jobs" {
			return t.Skip()
		}
		found = t.Peek() == '['
		return t.Array(func() error {
			if err := t.Object(func(key []byte) error { first[string(key)] = true; return t.Skip() }); err != nil {
				return err
			}
			return io.EOF // one is enough
		})
	})
	return found && (first["association"] || first["allocation_nodes"] || first["job_id"] && first["time"])
}

// sacctRecord is what is used of a job. The same fields have been plain numbers and words,
// and objects and lists that hold them, from version to version.
type sacctRecord struct {
	Account         string     `json:"account"`
	AllocationNodes slurmValue `json:"allocation_nodes"`
	Array           struct {
		JobID  slurmValue `json:"job_id"`
		TaskID slurmValue `json:"task_id"`
		Task   slurmValue `json:"task"`
	} `json:"array"`
	Het struct {
		JobID  slurmValue `json:"job_id"`
		Offset slurmValue `json:"job_offset"`
	} `json:"het"`
	JobID     slurmValue `json:"job_id"`
	Name      string     `json:"name"`
	Partition string     `json:"partition"`
	Priority  slurmValue `json:"priority"`
	QOS       string     `json:"qos"`
	User      string     `json:"user"`
	Required  struct {
		CPUs          slurmValue `json:"CPUs"`
		MemoryPerCPU  slurmValue `json:"memory_per_cpu"`
		MemoryPerNode slurmValue `json:"memory_per_node"`
	} `json:"required"`
	State struct {
		Current slurmValue `json:"current"`
	} `json:"state"`
	Time struct {
		Elapsed    slurmValue `json:"elapsed"`
		Eligible   slurmValue `json:"eligible"`
		Start      slurmValue `json:"start"`
		Submission slurmValue `json:"submission"`
		Limit      slurmValue `json:"limit"`
	} `json:"time"`
	TRES struct {
		Allocated []sacctTRES `json:"allocated"`
		Requested []sacctTRES `json:"requested"`
	} `json:"tres"`
	Steps []struct {
		TRES struct {
			Requested struct {
				Average []sacctTRES `json:"average"`
			} `json:"requested"`
		} `json:"tres"`
	} `json:"steps"`
}

// sacctTRES is an amount of a trackable resource: of memory in MiB.
type sacctTRES struct {
	Type  string     `json:"type"`
	Name  string     `json:"name"`
	Count slurmValue `json:"count"`
}

// slurmValue is a number or a word, however it is wrapped: 7, "7", ["RUNNING"],
// {"set":true,"infinite":false,"number":7}. It is empty where it is not told, and
// UNLIMITED where it is infinite.
type slurmValue string

// UnmarshalJSON implements json.Unmarshaler.
func (v *slurmValue) UnmarshalJSON(b []byte) error {
	*v = ""
	if len(b) == 0 {
		return nil
	}
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(v))
	case '[':
		var list []slurmValue
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) > 0 {
			*v = list[0]
		}
	case '{':
		var w struct {
			Set      *bool       `json:"set"`
			Infinite bool        `json:"infinite"`
			Number   json.Number `json:"number"`
		}
		if err := json.Unmarshal(b, &w); err != nil {
			return err
		}
		switch {
		case w.Infinite:
			*v = "UNLIMITED"
		case w.Set == nil || *w.Set:
			*v = slurmValue(w.Number)
		}
	case 'n', 't', 'f':
	default:
		*v = slurmValue(b)
	}
	return nil
}

// above is the value where it is a number above 0, and empty where it is none.
func (v slurmValue) above() string {
	if n, ok := ParseInt([]byte(v)); ok && n <= 0 {
		return ""
	}
	return string(v)
}

// sacctJSONSource makes lines of jobs, and reads these.
type sacctJSONSource struct {
	in    *Input
	lines *sacctSource // nil: nothing has been read
}

// sacctPaths are the fields of the lines, by where they stand in a job.
var sacctPaths = [sacctFields]string{
	jobID: "job_id", jobName: "name", user: "user", account: "account", partition: "partition",
	submit: "time.submission", eligible: "time.eligible", start: "time.start", elapsedRaw: "time.elapsed", state: "state.current",
	allocTRES: "tres.allocated", reqTRES: "tres.requested", usage: "steps.tres.requested.average", reqCPUs: "required.CPUs",
	reqMem: "required.memory", nodes: "allocation_nodes", timelimitRaw: "time.limit", priority: "priority", qos: "qos",
}

// Next implements Source.
func (s *sacctJSONSource) Next(e *Entry) error {
	if s.lines == nil {
		s.lines = &sacctSource{in: s.in, byID: map[string]int{}, read: true}
		for c, path := range sacctPaths {
			s.lines.names = append(s.lines.names, path)
			if s.lines.index[c] = c; path == "" {
				s.lines.index[c] = -1
			}
		}
		s.lines.width = len(sacctPaths)
		s.in.Note("GPUs, cores and memory of a job are spread evenly over its nodes")
		if err := s.readAll(); err != nil {
			return err
		}
	}
	return s.lines.Next(e)
}

func (s *sacctJSONSource) readAll() error {
	d := json.NewDecoder(s.in.Body)
	err := delimiter(d, '{', "what sacct --json writes")
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		if key == "jobs" {
			err = s.readJobs(d)
			continue
		}
		var other json.RawMessage
		err = d.Decode(&other)
	}
	if err == nil {
		err = delimiter(d, '}', "what sacct --json writes")
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *sacctJSONSource) readJobs(d *json.Decoder) error {
	if err := delimiter(d, '[', "a list of jobs"); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("job %d of the list: %w", n, err)
		}
		s.in.Row()
		var r sacctRecord
		if err := json.Unmarshal(raw, &r); err != nil {
			item := fmt.Sprintf("item %d", n)
			s.lines.jobs = append(s.lines.jobs, sacctJob{rows: 1, bad: s.in.Bad(0, item, nil, "a job as sacct --json writes it; "+err.Error())})
			continue
		}
		s.line(&r, raw)
	}
	return delimiter(d, ']', "a list of jobs")
}

// line has a job read as a line, and its steps as lines that are not rows of the file.
func (s *sacctJSONSource) line(r *sacctRecord, raw []byte) {
	key := r.key()
	f := make([][]byte, sacctFields)
	set := func(c sacctField, v string) { f[c] = []byte(v) }
	set(jobID, key)
	set(jobName, r.Name)
	set(user, r.User)
	set(account, r.Account)
	set(partition, r.Partition)
	set(submit, r.Time.Submission.above())
	set(eligible, r.Time.Eligible.above())
	set(start, r.Time.Start.above())
	set(elapsedRaw, string(r.Time.Elapsed))
	set(state, string(r.State.Current))
	set(allocTRES, tresText(r.TRES.Allocated, "M"))
	set(reqTRES, tresText(r.TRES.Requested, "M"))
	set(reqCPUs, r.Required.CPUs.above())
	set(nodes, r.AllocationNodes.above())
	set(timelimitRaw, r.Time.Limit.above())
	set(priority, string(r.Priority))
	set(qos, r.QOS)
	switch perCPU, perNode := r.Required.MemoryPerCPU.above(), r.Required.MemoryPerNode.above(); {
	case perNode != "":
		set(reqMem, perNode+"Mn")
	case perCPU != "":
		set(reqMem, perCPU+"Mc")
	}
	l := s.lines
	l.rec.text, l.rec.fields = raw, f
	l.about = "job " + key
	l.row()
	for i := range r.Steps {
		if text := tresText(r.Steps[i].TRES.Requested.Average, ""); text != "" {
			base, _, _ := strings.Cut(key, "+")
			f[usage] = []byte(text)
			l.use(&l.jobs[l.byID[base]])
		}
	}
}

// key is the number of the job as sacct --parsable2 writes it: 17, 17_3 of an array,
// 17_[4-9] of tasks that have not started, 17+1 of a heterogeneous job.
func (r *sacctRecord) key() string {
	array, het := r.Array.JobID.above(), r.Het.JobID.above()
	switch {
	case array != "" && r.Array.TaskID != "":
		return array + "_" + string(r.Array.TaskID)
	case array != "" && r.Array.Task != "":
		return array + "_[" + string(r.Array.Task) + "]"
	case het != "":
		return het + "+" + string(r.Het.Offset)
	}
	return string(r.JobID)
}

// tresText writes resources as sacct --parsable2 does.
func tresText(list []sacctTRES, memory string) string {
	var b bytes.Buffer
	for _, r := range list {
		if r.Count == "" || strings.ContainsAny(r.Type+r.Name+string(r.Count), ",=") {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.Type)
		if r.Name != "" {
			b.WriteString("/" + r.Name)
		}
		b.WriteString("=" + string(r.Count))
		if r.Type == "mem" {
			b.WriteString(memory)
		}
	}
	return b.String()
}
