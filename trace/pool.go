package trace

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// Shape is what a job asks for, in the way most traces say it: amounts for the
// whole job and, perhaps, the number of tasks that they are divided into.
type Shape struct {
	GPUs      unit.Milli
	CPUs      unit.Milli
	Memory    unit.Bytes
	GPUMemory unit.Bytes // of each GPU
	Types     string     // acceptable GPU types joined by "|"
	Slots     job.Slots  // counted resources of each task
	Where     string     // as in job.Demand
	Tolerate  string     // as in job.Demand
	Within    string     // as job.Demand.SetWithin reads it
	Tasks     int32      // 0: a task for each whole GPU, otherwise one
	Min, Max  int32      // range of tasks of an elastic job; 0: Tasks
}

// demand turns the shape into the demand of one role.
func (s *Shape) demand() (job.Demand, error) {
	d := job.Demand{Types: s.Types}
	if s.Where != "" || s.Tolerate != "" || s.Within != "" {
		if err := cmp.Or(d.SetWhere(s.Where), d.SetTolerate(s.Tolerate), d.SetWithin(s.Within)); err != nil {
			return d, err
		}
	}
	tasks := s.Tasks
	switch {
	case tasks < 0:
		return d, fmt.Errorf("asks for %d tasks, needs at least one", tasks)
	case s.GPUs < 0:
		return d, fmt.Errorf("asks for %v GPUs", s.GPUs)
	case tasks == 0 && s.GPUs > unit.One && s.GPUs%unit.One != 0:
		return d, fmt.Errorf("asks for %v GPUs: more than one must be a whole number unless the tasks are told", s.GPUs)
	case tasks == 0 && s.GPUs/unit.One > job.MaxTasks:
		return d, fmt.Errorf("asks for %v GPUs, at most %d are allowed", s.GPUs, job.MaxTasks)
	case tasks == 0:
		tasks = max(1, int32(s.GPUs/unit.One))
	case s.GPUs%unit.Milli(tasks) != 0:
		return d, fmt.Errorf("asks for %v GPUs, which cannot be divided among %d tasks", s.GPUs, tasks)
	}
	d.Roles[0] = job.Role{
		Tasks: tasks, Min: s.Min, Max: s.Max,
		GPU:       s.GPUs / unit.Milli(tasks),
		CPU:       (s.CPUs + unit.Milli(tasks)/2) / unit.Milli(tasks),
		Memory:    (s.Memory + unit.Bytes(tasks)/2) / unit.Bytes(tasks),
		GPUMemory: s.GPUMemory,
		Slots:     s.Slots,
	}
	return d, d.Check()
}

// mostPlain is the largest number of GPUs whose demand is found by it alone.
const mostPlain = 1024

// pool hands out shared strings and demands, so that equal ones take memory
// once and a row of a trace costs next to no allocation.
type pool struct {
	texts   map[string]string
	models  map[string]*job.Shape // by how they are written
	keys    strings.Builder
	plain   []*job.Demand // n single-GPU tasks
	shapes  map[Shape]*job.Demand
	demands job.Interner
	last    Shape
	lastD   *job.Demand
	scratch []byte
}

// text is the string of v, shared with every equal one before.
func (p *pool) text(v []byte) string {
	if len(v) == 0 {
		return ""
	}
	if s, ok := p.texts[string(v)]; ok {
		return s
	}
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	s := string(v)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	p.texts[string(v)] = s
	return s
}

// shape is the shape that is written as v, shared with every equal one before.
func (p *pool) shape(v []byte) (*job.Shape, error) {
	if s, ok := p.models[string(v)]; ok {
		return s, nil
	}
	s, err := job.ParseShape(string(v))
	if err != nil {
		return nil, err
	}
	if p.models == nil {
		p.models = map[string]*job.Shape{}
	}
	p.models[string(v)] = s
	return s, nil
}

const keyChunk = 1 << 14

// unique is the string of v, which is not expected to come again. Many share
// one piece of memory.
func (p *pool) unique(v []byte) string {
	if len(v) > keyChunk/8 {
		return strings.ToValidUTF8(string(v), "\uFFFD")
	}
	if !utf8.Valid(v) {
		return strings.ToValidUTF8(string(v), "\uFFFD")
	}
	if p.keys.Cap()-p.keys.Len() < len(v) {
		p.keys.Reset()
		p.keys.Grow(keyChunk)
	}
	at := p.keys.Len()
	p.keys.Write(v)
	return p.keys.String()[at:]
}

// number is n in decimal.
func (p *pool) number(n int) string {
	p.scratch = strconv.AppendInt(p.scratch[:0], int64(n), 10)
	return p.unique(p.scratch)
}

// demand is the shared demand of a shape.
func (p *pool) demand(s *Shape) (*job.Demand, error) {
	if *s == p.last && p.lastD != nil {
		return p.lastD, nil
	}
	plain := Shape{GPUs: s.GPUs}
	n := s.GPUs / unit.One
	if *s == plain && s.GPUs > 0 && s.GPUs%unit.One == 0 && n <= mostPlain {
		if p.plain == nil {
			p.plain = make([]*job.Demand, mostPlain+1)
		}
		if p.plain[n] == nil {
			d := job.GPUs(int(n))
			p.plain[n] = p.demands.Get(d)
		}
		p.last, p.lastD = *s, p.plain[n]
		return p.lastD, nil
	}
	d, ok := p.shapes[*s]
	if !ok {
		made, err := s.demand()
		if err != nil {
			return nil, err
		}
		d = p.demands.Get(made)
		if p.shapes == nil {
			p.shapes = map[Shape]*job.Demand{}
		}
		p.shapes[*s] = d
	}
	p.last, p.lastD = *s, d
	return d, nil
}

// whole is the shared demand equal to d.
func (p *pool) whole(d *job.Demand) (*job.Demand, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	return p.demands.Get(*d), nil
}
