package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// sacctFormat is an export of Slurm's accounting: sacct --parsable2 (or
// --parsable), with its header. JobID, Submit, State and Elapsed or ElapsedRaw
// are needed; of the rest it uses what is there.
func sacctFormat() Format {
	return Format{
		Name: "sacct", Aliases: []string{"slurm"}, Title: "Slurm accounting, sacct --parsable2 with a header",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			known, named := 0, false
			for _, c := range h.Columns(0, '|') {
				c := sacctColumn(c)
				if c != noColumn {
					known++
				}
				named = named || c == jobID
			}
			if !named || known < 2 { // what else is missing is an error that says so
				return 0
			}
			return known
		},
		Decode: func(in *Input) (Source, error) {
			s := &sacctSource{in: in, rec: records{r: in.Body, comma: '|', bare: true}, byID: map[string]int{}}
			return s, s.header()
		},
	}
}

// sacctField is a column of sacct that is used.
type sacctField uint8

const (
	noColumn sacctField = iota
	jobID
	jobName
	user
	account
	partition
	submit
	eligible
	start
	elapsed
	elapsedRaw
	state
	allocTRES
	reqTRES
	usage
	allocGRES
	reqGRES
	allocCPUs
	reqCPUs
	reqMem
	nodes
	timelimit
	timelimitRaw
	priority
	qos
	sacctFields
)

var sacctNames = map[string]sacctField{
	"jobid": jobID, "jobname": jobName, "user": user, "account": account, "partition": partition,
	"submit": submit, "eligible": eligible, "start": start, "elapsed": elapsed, "elapsedraw": elapsedRaw,
	"state": state, "alloctres": allocTRES, "reqtres": reqTRES, "tresusageinave": usage,
	"allocgres": allocGRES, "reqgres": reqGRES, "alloccpus": allocCPUs, "ncpus": allocCPUs, "reqcpus": reqCPUs,
	"reqmem": reqMem, "nnodes": nodes, "allocnodes": nodes,
	"timelimit": timelimit, "timelimitraw": timelimitRaw, "priority": priority, "qos": qos,
}

func sacctColumn(name []byte) sacctField {
	return sacctNames[strings.ToLower(string(bytes.TrimSpace(name)))]
}

// sacctJob is a job with all its runs and, when it is a heterogeneous one, all
// its components.
type sacctJob struct {
	entry   Entry
	roles   []sacctRole
	why     string // it is left out; empty: it is not
	line    int
	about   string // where no line tells it: which job it is
	bad     error
	rows    int
	gpuUse  float64
	gpuMem  unit.Bytes
	started time.Duration
	ended   time.Duration // of the last run
	between time.Duration // waits between its runs
	ready   time.Duration // eligible
}

// sacctRole is what a component of a job asks for.
type sacctRole struct {
	component string // after the +
	shape     Shape
}

// sacctSource reads a whole export before it gives the first job, for the runs
// of a job may stand anywhere in it.
type sacctSource struct {
	in    *Input
	rec   records
	index [sacctFields]int // of the columns; -1: not there
	names []string         // of the columns, as the header has them
	width int
	open  bool   // the last column is the name of the job, and no other may hold the separator
	about string // which job the row is about, where lines do not tell
	jobs  []sacctJob
	byID  map[string]int
	at    int
	read  bool
}

func (s *sacctSource) header() error {
	if err := s.rec.next(); err != nil {
		return err
	}
	for i := range s.index {
		s.index[i] = -1
	}
	s.width = len(s.rec.fields)
	for i, name := range s.rec.fields {
		s.names = append(s.names, string(bytes.TrimSpace(name)))
		if c := sacctColumn(name); c != noColumn && s.index[c] < 0 {
			s.index[c] = i
		} else if c == noColumn && len(name) > 0 {
			s.in.info.Ignored = append(s.in.info.Ignored, string(name))
		}
	}
	s.open = s.index[jobName] == s.width-1 && !slices.ContainsFunc(s.in.info.Ignored, anyText)
	if s.index[jobID] < 0 || s.index[submit] < 0 || s.index[state] < 0 || s.index[elapsed] < 0 && s.index[elapsedRaw] < 0 {
		return &Error{File: s.in.Name, Line: 1, Found: quote(s.rec.text), Want: "columns JobID, Submit, State and Elapsed or ElapsedRaw"}
	}
	s.in.Note("times of day are those of the cluster, taken as they stand")
	s.in.Note("GPUs, cores and memory of a job are spread evenly over its nodes")
	return nil
}

// anyText tells whether a column may hold any text, the separator too.
func anyText(column string) bool {
	switch strings.ToLower(column) {
	case "submitline", "comment", "admincomment", "systemcomment", "extra", "workdir", "stdin", "stdout", "stderr", "container":
		return true
	}
	return false
}

// Next implements Source.
func (s *sacctSource) Next(e *Entry) error {
	if !s.read {
		if err := s.readAll(); err != nil {
			return err
		}
		s.read = true
	}
	if s.at == len(s.jobs) {
		return io.EOF
	}
	j := &s.jobs[s.at]
	s.at++
	err := s.finish(j)
	*e = j.entry
	*j = sacctJob{}
	return err
}

func (s *sacctSource) readAll() error {
	for {
		err := s.rec.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.in.Row()
		if more := len(s.rec.fields) - s.width; more > 0 && s.open {
			last := s.rec.fields[s.width-1:]
			s.rec.fields = append(s.rec.fields[:s.width-1], bytes.Join(last, []byte{'|'}))
		}
		s.row()
	}
}

// field is the text of a column, empty where there is none.
func (s *sacctSource) field(c sacctField) []byte {
	i := s.index[c]
	if i < 0 || i >= len(s.rec.fields) {
		return nil
	}
	switch v := s.rec.fields[i]; string(v) {
	case "Unknown", "None", "N/A", "None assigned", "(null)":
		return nil
	default:
		return v
	}
}

// bad is the error about a field that must be there and make sense.
func (s *sacctSource) bad(c sacctField, want string) error {
	column := s.names[s.index[c]]
	if s.about != "" {
		column = s.about + ", " + column
	}
	return s.in.Bad(s.rec.line, column, s.field(c), want)
}

// assume counts a field that is empty, or not understood, and says what is
// assumed for it. A column that the export does not have is not counted.
func (s *sacctSource) assume(c sacctField, understood bool, means string) {
	switch {
	case s.index[c] < 0 || understood && len(s.field(c)) > 0:
	case len(s.field(c)) > 0:
		s.in.Empty(s.names[s.index[c]], "not understood: "+means)
	default:
		s.in.Empty(s.names[s.index[c]], means)
	}
}

// row adds a line to the job that it is about.
func (s *sacctSource) row() {
	id := s.field(jobID)
	base, step, isStep := bytes.Cut(id, []byte{'.'})
	base, component, _ := bytes.Cut(base, []byte{'+'})
	if isStep {
		s.step(base, step)
		return
	}
	if n, ok := s.byID[string(base)]; ok {
		j := &s.jobs[n]
		j.rows++
		s.again(j, string(component))
		return
	}
	key := s.in.Unique(base)
	s.byID[key] = len(s.jobs)
	s.jobs = append(s.jobs, sacctJob{line: s.rec.line, about: s.about, rows: 1})
	j := &s.jobs[len(s.jobs)-1]
	j.entry.Job.Key = key
	switch {
	case len(s.rec.fields) != s.width:
		j.bad = s.uneven()
	case len(id) == 0:
		j.bad = s.in.Bad(s.rec.line, "JobID", id, "the number of a job")
	case bytes.ContainsRune(base, '['):
		j.why = "tasks of an array that have not started"
	default:
		j.bad = s.first(j, string(component))
	}
}

// uneven is the error about a line with more or fewer fields than the header.
// Slurm does not quote, so a text that holds the separator breaks its line.
func (s *sacctSource) uneven() error {
	want := fmt.Sprintf("%d fields, as many as the header has", s.width)
	if len(s.rec.fields) > s.width {
		want += `: a text in it holds a "|"; export without SubmitLine and Comment, and JobName last, or leave such rows out (--skip-bad)`
	}
	return &Error{File: s.in.Name, Line: s.rec.line, Found: fmt.Sprintf("%d fields", len(s.rec.fields)), Want: want}
}

// step takes from a line about a step what only those tell.
func (s *sacctSource) step(base, _ []byte) {
	n, ok := s.byID[string(base)]
	if !ok { // a step whose job is not in the export
		s.jobs = append(s.jobs, sacctJob{line: s.rec.line, rows: 1, why: "a step of a job"})
		return
	}
	s.in.Fold(1)
	s.use(&s.jobs[n])
}

// use takes in how much a step used the GPUs of its job.
func (s *sacctSource) use(j *sacctJob) {
	tres(s.field(usage), func(key, value []byte) {
		switch string(key) {
		case "gres/gpuutil":
			if f, ok := ParseFloat(value); ok && f > 0 {
				j.gpuUse = max(j.gpuUse, min(f/100, 1e6))
			}
		case "gres/gpumem":
			if b, err := unit.ParseBytes(string(value)); err == nil {
				j.gpuMem = max(j.gpuMem, b)
			}
		}
	})
}

// first reads the first line about a job.
func (s *sacctSource) first(j *sacctJob, component string) error {
	e := &j.entry
	e.Job.Name = s.in.Text(s.field(jobName))
	e.Job.User = s.in.Text(s.field(user))
	e.Job.Tenant = s.in.Text(s.field(account))
	e.Job.Partition = s.in.Text(s.partition())
	if e.Job.Tenant == "" {
		e.Job.Tenant = e.Job.Partition
	}
	for _, c := range []sacctField{jobName, user, account, partition, qos} {
		s.assume(c, true, "none")
	}
	var ok bool
	if e.Job.Submit, ok = slurmMoment(s.field(submit)); !ok {
		return s.bad(submit, string(wantWall)+", or seconds since 1970")
	}
	j.ready = e.Job.Submit
	at, ok := slurmMoment(s.field(eligible))
	s.assume(eligible, ok, "as it was submitted")
	if ok {
		j.ready = max(j.ready, at)
	}
	e.Job.Estimate = s.limit()
	n, ok := ParseInt(s.field(priority))
	s.assume(priority, ok && n >= 0, "0")
	if ok {
		e.Job.Priority = int32(min(max(n, 0), math.MaxInt32))
	}
	if q := s.field(qos); len(q) > 0 {
		e.Job.Hints = &job.Hints{QoS: s.in.Text(q)}
	}
	if err := s.run(j, false); err != nil {
		return err
	}
	if err := s.role(j, component); err != nil && j.why == "" {
		return err
	}
	return nil // what a job would have held that never ran need not be told
}

// partition is the one that the job ran in, or the first of those that it may run in.
func (s *sacctSource) partition() []byte {
	first, _, several := bytes.Cut(s.field(partition), []byte{','})
	if several {
		s.in.Empty(s.names[s.index[partition]], "several partitions: the first")
	}
	return first
}

// limit is the time limit of the job; 0: none.
func (s *sacctSource) limit() time.Duration {
	limit, ok := slurmTime(s.field(timelimit))
	s.assume(timelimit, ok || unlimited(s.field(timelimit)), "no estimate")
	if ok {
		return limit
	}
	minutes, ok := ParseTimes(s.field(timelimitRaw), time.Minute)
	ok = ok && minutes > 0 && minutes <= century
	s.assume(timelimitRaw, ok || unlimited(s.field(timelimitRaw)), "no estimate")
	if ok {
		return minutes
	}
	return 0
}

// unlimited tells whether a limit is a word for none.
func unlimited(v []byte) bool {
	return string(v) == "UNLIMITED" || string(v) == "Partition_Limit"
}

// again reads a further line about a job: another component of it, which runs
// together with the first, or another run.
func (s *sacctSource) again(j *sacctJob, component string) {
	if j.bad != nil {
		return
	}
	known := false
	if len(j.roles) == 0 { // the run before never held anything
		if j.bad = s.run(j, true); j.bad != nil {
			return
		}
		if err := s.role(j, component); err != nil && j.why == "" {
			j.bad = err
		}
		return
	}
	for i := range j.roles {
		known = known || j.roles[i].component == component
	}
	if known {
		j.bad = s.run(j, component == j.roles[0].component)
		return
	}
	if j.bad = s.role(j, component); j.bad == nil {
		work := j.entry.Truth.Work
		if d, ok := s.elapsed(); ok {
			j.entry.Truth.Work = max(work, d)
		}
	}
}

// run reads how long a run took and how it ended. When it follows another, that
// one is a failed attempt.
func (s *sacctSource) run(j *sacctJob, follows bool) error {
	t := &j.entry.Truth
	ran, ok := s.elapsed()
	if !ok {
		if s.index[elapsedRaw] >= 0 && len(s.field(elapsedRaw)) > 0 || s.index[elapsed] < 0 {
			return s.bad(elapsedRaw, "seconds, 0 or more, 100 years at most")
		}
		return s.bad(elapsed, "a time such as 1-02:03:04, 100 years at most")
	}
	text := s.field(state)
	word, _, _ := bytes.Cut(text, []byte{' '}) // CANCELLED by 1000
	word = bytes.TrimSuffix(word, []byte{'+'})
	if follows && j.why == "" && t.Work > 0 {
		t.Attempts = append(t.Attempts, t.Work)
	}
	j.why = t.ended(string(word))
	began, known := slurmMoment(s.field(start))
	if !follows {
		s.assume(start, known, "wait unknown")
	}
	if j.why == "" && ran == 0 && !known {
		j.why = "it was over before it started"
	}
	if known && (j.started == 0 || began < j.started) {
		j.started = began
	}
	if known {
		if follows && j.ended > 0 {
			j.between += max(0, began-j.ended)
		}
		j.ended = began + ran
	}
	t.Work = ran
	return nil
}

// ended stores how a run ended, by its state. It says why the run is left out if it is: one
// that has not started, or whose state nobody knows.
func (t *Truth) ended(state string) (why string) {
	t.AtLeast = false
	var known bool
	switch state {
	case "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "UPDATE_DB", "POWER_UP_NODE":
		t.Outcome, t.AtLeast = Passed, true
	case "PENDING", "CONFIGURING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "EXPEDITING":
		return "it has not started"
	case "REVOKED":
		return "it ran in another cluster"
	case "REQUEUED", "LAUNCH_FAILED", "RECONFIG_FAIL":
		t.Outcome = Failed
	case "":
		return "its state is not told"
	default:
		if t.Outcome, known = outcomeOf([]byte(state)); !known {
			return fmt.Sprintf("its state %s is not known", quote([]byte(state)))
		}
	}
	return ""
}

func (s *sacctSource) elapsed() (time.Duration, bool) {
	if v := s.field(elapsedRaw); len(v) > 0 {
		d, ok := ParseTimes(v, time.Second)
		return d, ok && d >= 0 && d <= century
	}
	d, ok := slurmTime(s.field(elapsed))
	return d, ok && d <= century
}

// finish makes the entry of a job that has been read whole.
func (s *sacctSource) finish(j *sacctJob) error {
	switch {
	case j.bad != nil:
		s.in.passOver(j.rows - 1)
		return j.bad
	case j.why != "":
		return &leftOut{line: j.line, about: j.about, why: j.why, rows: j.rows}
	}
	s.in.Fold(j.rows - 1)
	e := &j.entry
	if j.started > 0 {
		e.Truth.Wait, e.Truth.HasWait = max(0, j.started-j.ready)+j.between, true
	}
	j.tellUse()
	d, err := sacctDemand(j.roles)
	if err == nil {
		e.Job.Demand, err = s.in.pool.whole(&d)
	}
	if err != nil {
		return s.in.Bad(j.line, "", []byte("job "+e.Job.Key), "a demand that can be met: it "+err.Error())
	}
	return nil
}

// tellUse makes hints of how much the steps used their GPUs. A use of more than
// one GPU is taken as the sum over those of the job.
func (j *sacctJob) tellUse() {
	if j.gpuUse == 0 && j.gpuMem == 0 {
		return
	}
	e := &j.entry
	if e.Job.Hints == nil {
		e.Job.Hints = &job.Hints{}
	}
	if j.gpuUse > 1 {
		var gpus unit.Milli
		for i := range j.roles {
			gpus += j.roles[i].shape.GPUs
		}
		j.gpuUse = min(1, j.gpuUse/max(1, float64(gpus/unit.One)))
	}
	e.Job.Hints.GPUUse, e.Job.Hints.GPUMemory = j.gpuUse, j.gpuMem
}

// sacctDemand puts the components of a job together.
func sacctDemand(roles []sacctRole) (job.Demand, error) {
	var d job.Demand
	if len(roles) > job.MaxRoles {
		return d, fmt.Errorf("has %d components, at most %d are read", len(roles), job.MaxRoles)
	}
	for i := range roles {
		one, err := roles[i].shape.demand()
		if err != nil {
			return d, err
		}
		d.Roles[i] = one.Roles[0]
		if len(roles) > 1 {
			d.Roles[i].Name = "het" + roles[i].component
		}
		d.Types = job.JoinTypes(d.Types, one.Types)
	}
	return d, nil
}
