package trace

import (
	"bytes"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// How Slurm writes times and what a job holds.

// slurmTime reads [days-][hours:]minutes:seconds, perhaps with a fraction.
func slurmTime(v []byte) (time.Duration, bool) {
	var days int64
	if before, after, found := bytes.Cut(v, []byte{'-'}); found {
		n, ok := ParseInt(before)
		if !ok || n < 0 || n > 36500 {
			return 0, false
		}
		days, v = n, after
	}
	var whole time.Duration
	parts := bytes.Split(v, []byte{':'})
	if len(parts) < 2 || len(parts) > 3 {
		return 0, false
	}
	for _, p := range parts[:len(parts)-1] {
		n, ok := ParseInt(p)
		if !ok || n < 0 || n > 1e6 {
			return 0, false
		}
		whole = whole*60 + time.Duration(n)
	}
	last, ok := ParseTimes(parts[len(parts)-1], time.Second)
	if !ok || last < 0 || last > time.Hour {
		return 0, false
	}
	return time.Duration(days)*24*time.Hour + whole*time.Minute + last, true
}

// slurmMoment reads a time of day, or seconds since 1970, which sacct writes in JSON and
// where SLURM_TIME_FORMAT is %s.
func slurmMoment(v []byte) (time.Duration, bool) {
	if at, ok := ParseWall(v); ok {
		return at, true
	}
	at, ok := ParseTimes(v, time.Second)
	return at, ok && at > 0 && at < 230*365*24*time.Hour
}

// tres reads a list such as cpu=8,gres/gpu:a100=2,mem=64G. It is false where a
// part is no pair; the others are used.
func tres(v []byte, use func(key, value []byte)) bool {
	pairs := true
	for part := range bytes.SplitSeq(v, []byte{','}) {
		key, value, found := bytes.Cut(part, []byte{'='})
		if found {
			use(bytes.TrimSpace(key), bytes.TrimSpace(value))
		}
		pairs = pairs && found
	}
	return pairs
}

// held is what a list of trackable resources tells.
type held struct {
	gpus, typed int64      // devices, and those of them whose type is told
	slices      int64      // those of them that are MIG slices
	parts       unit.Milli // that these are of GPUs
	sliceMemory unit.Bytes // of the largest
	types       string
	cpus        unit.Milli
	memory      unit.Bytes
	nodes       int64
}

// readTRES reads what a job holds. It is false where a part of that makes no
// sense; the others count.
func readTRES(v []byte) (held, bool) {
	var h held
	good := true
	pairs := tres(v, func(key, value []byte) {
		if kind, found := bytes.CutPrefix(key, []byte("gres/gpu")); found {
			n, ok := ParseInt(value)
			switch {
			case !ok || n < 0 || n > job.MaxTasks:
				good = false
			case len(kind) == 0:
				h.gpus = n
			case kind[0] == ':':
				h.device(string(kind[1:]), n)
			}
			return
		}
		good = h.plain(string(key), value) && good
	})
	h.gpus = max(h.gpus, h.typed)
	return h, good && pairs
}

// plain takes what is no GPU. It is false where the value makes no sense.
func (h *held) plain(key string, value []byte) bool {
	switch key {
	case "cpu":
		m, ok := ParseMilli(value)
		if !ok || m < 0 || m >= 1<<40 {
			return false
		}
		h.cpus = m
	case "mem":
		b, err := unit.ParseBytes(string(value))
		if err != nil {
			return false
		}
		h.memory = b
	case "node":
		n, ok := ParseInt(value)
		if !ok || n <= 0 || n > job.MaxTasks {
			return false
		}
		h.nodes = n
	}
	return true
}

// device adds n devices of a type: GPUs, or MIG slices such as 1g.10gb and
// a100_3g.20gb.
func (h *held) device(kind string, n int64) {
	if n == 0 {
		return
	}
	h.typed += n
	at := strings.LastIndexByte(kind, '_') + 1
	if slice := kind[at:]; len(slice) > 3 && slice[0] >= '1' && slice[0] <= '7' && strings.HasPrefix(slice[1:], "g.") {
		part, memory := podmap.Slice(slice)
		h.slices += n
		h.parts += unit.Milli(n) * part
		h.sliceMemory = max(h.sliceMemory, memory)
		kind = kind[:max(0, at-1)]
	}
	h.types = job.JoinTypes(h.types, kind)
}

// amount is all that is held of GPUs; more than one is whole ones.
func (h *held) amount() unit.Milli {
	all := milliOf(h.gpus-h.slices) + h.parts
	if all > unit.One {
		all = (all + unit.One - 1) / unit.One * unit.One
	}
	return all
}

// readGRES reads the generic resources of one node, such as gpu:a100:4 or
// gres:gpu:2(IDX:0-1).
func readGRES(v []byte) (gpus int64, types string) {
	for part := range bytes.SplitSeq(v, []byte{','}) {
		part = bytes.TrimPrefix(part, []byte("gres:"))
		rest, found := bytes.CutPrefix(part, []byte("gpu"))
		if !found {
			continue
		}
		if before, _, found := bytes.Cut(rest, []byte{'('}); found {
			rest = before
		}
		n := int64(1)
		for word := range bytes.SplitSeq(bytes.TrimPrefix(rest, []byte{':'}), []byte{':'}) {
			if count, ok := ParseInt(word); ok && count >= 0 && count <= 1000 {
				n = count
			} else if len(word) > 0 {
				types = job.JoinTypes(types, string(word))
			}
		}
		gpus += n
	}
	return gpus, types
}

// reqMem reads ReqMem, which ends in c (for each core) or n (for each node) in
// older versions.
func reqMemory(v []byte, cpus unit.Milli, nodes int64) (unit.Bytes, bool) {
	if len(v) == 0 {
		return 0, false
	}
	times := int64(1)
	switch v[len(v)-1] {
	case 'c':
		times, v = int64(cpus/unit.One), v[:len(v)-1]
	case 'n':
		times, v = nodes, v[:len(v)-1]
	}
	b, err := unit.ParseBytes(string(v))
	if err != nil || b > 1<<50 {
		return 0, false
	}
	return b * unit.Bytes(min(times, 1000)), true
}

// role adds what a line asks for.
func (s *sacctSource) role(j *sacctJob, component string) error {
	h, ok := readTRES(s.field(allocTRES))
	s.assume(allocTRES, ok, "what ReqTRES and the other columns say")
	asked, ok := readTRES(s.field(reqTRES))
	s.assume(reqTRES, ok, "what AllocTRES and the other columns say")
	if h == (held{}) {
		h = asked
	}
	if h.types == "" {
		h.types = asked.types
	}
	n, ok := ParseInt(s.field(nodes))
	ok = ok && n > 0 && n <= job.MaxTasks
	s.assume(nodes, ok, "what AllocTRES says, or one")
	if ok && h.nodes == 0 {
		h.nodes = n
	}
	h.nodes = max(1, h.nodes)
	for _, c := range []sacctField{allocCPUs, reqCPUs} {
		m, ok := ParseMilli(s.field(c))
		ok = ok && m >= 0 && m < 1<<40
		s.assume(c, ok, "what the other columns say")
		if ok && h.cpus == 0 {
			h.cpus = m
		}
	}
	if h.gpus == 0 {
		for _, c := range []sacctField{allocGRES, reqGRES} {
			if n, types := readGRES(s.field(c)); n > 0 && h.gpus == 0 {
				h.gpus, h.types = n*h.nodes, job.JoinTypes(h.types, types)
			}
		}
	}
	memory, ok := reqMemory(s.field(reqMem), h.cpus, h.nodes)
	s.assume(reqMem, ok, "what the other columns say")
	if h.memory == 0 {
		h.memory = memory
	}
	shape := Shape{
		GPUs: h.amount(), CPUs: h.cpus, Memory: h.memory, GPUMemory: h.sliceMemory,
		Types: s.in.Text([]byte(h.types)), Tasks: int32(h.nodes),
	}
	if shape.GPUs%(unit.One*unit.Milli(h.nodes)) != 0 && h.nodes > 1 {
		shape.Tasks = 0 // uneven over its nodes: a task for each GPU
	}
	if _, err := shape.demand(); err != nil {
		hint := ""
		if s.index[allocTRES] < 0 && s.index[reqTRES] < 0 {
			hint = " (AllocTRES and ReqTRES tell it, where they are exported)"
		}
		return s.in.Bad(s.rec.line, s.about, s.rec.text, "a demand that can be met: it "+err.Error()+hint)
	}
	j.roles = append(j.roles, sacctRole{component, shape})
	return nil
}
