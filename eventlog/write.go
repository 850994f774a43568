package eventlog

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Version is the version of the encoding. Version 1 had no checksums and notes of
// two numbers, which are not read. Readers of version 2 skip kinds of events and
// fields that they do not know.
const Version = 2

// Compression is how a log is packed.
type Compression uint8

// The ways to pack a log.
const (
	Plain Compression = iota
	Gzip
	Zstd
)

// Writer appends events to a log, one line each. The first error is kept, and
// returned by Close.
type Writer struct {
	out    *bufio.Writer
	packed packer
	line   []byte
	sum    checksum
	err    error
}

// packer is a compressor.
type packer interface {
	io.WriteCloser
	Flush() error
}

// NewWriter begins a log with its header.
func NewWriter(w io.Writer, h *Header, c Compression) (*Writer, error) {
	l := &Writer{}
	switch c {
	case Gzip:
		l.packed = gzip.NewWriter(w)
	case Zstd:
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		l.packed = z
	}
	if l.packed != nil {
		w = l.packed
	}
	l.out = bufio.NewWriterSize(w, 1<<16)
	if l.line, l.err = h.append(l.line); l.err == nil {
		l.err = l.put()
	}
	return l, l.err
}

// put writes the line, which ends an object, with its checksum.
func (l *Writer) put() error {
	l.line = l.sum.seal(l.line)
	_, err := l.out.Write(l.line)
	return err
}

// Write appends one event.
func (l *Writer) Write(ev *Event) error {
	if l.err != nil {
		return l.err
	}
	if l.line, l.err = ev.Append(l.line[:0]); l.err != nil {
		return l.err
	}
	l.err = l.put()
	return l.err
}

// Flush hands all that was written to the file behind the log: after a crash it
// can be read up to there. It makes a packed log larger.
func (l *Writer) Flush() error {
	if l.err == nil {
		l.err = l.out.Flush()
	}
	if l.err == nil && l.packed != nil {
		l.err = l.packed.Flush()
	}
	return l.err
}

// Close ends the log with the last event that could be written. It does not
// close the file behind it.
func (l *Writer) Close() error {
	if err := l.out.Flush(); l.err == nil {
		l.err = err
	}
	if l.packed != nil {
		if err := l.packed.Close(); l.err == nil {
			l.err = err
		}
		l.packed = nil
	}
	return l.err
}

// never is how a moment that does not come is written.
const never = "never"

// inRange checks the times of an event: those that are written can be read, and
// added up.
func (ev *Event) inRange() error {
	for _, d := range [...]time.Duration{ev.Time, ev.Delay, ev.Kept, max(0, ev.Estimate)} {
		if d < 0 || d > unit.MaxScaled {
			return fmt.Errorf("%s of job number %d at %v: %v cannot be written as a time", ev.Kind, ev.Job, ev.Time, d)
		}
	}
	if at := ev.Reason.At; at < 0 || at > unit.MaxScaled && at != unit.Never {
		return fmt.Errorf("%s of job number %d at %v: %v cannot be written as a moment", ev.Kind, ev.Job, ev.Time, at)
	}
	return nil
}

// Append writes an event as one line of JSON, still without its checksum. It fails
// on an event that could not be read again: a time that is negative or beyond 146
// years, a number that is none.
func (ev *Event) Append(b []byte) ([]byte, error) {
	if err := ev.inRange(); err != nil {
		return b, err
	}
	f := jsontext.Writer{B: append(b, '{')}
	f.Key("t")
	f.B = unit.AppendSeconds(f.B, ev.Time)
	f.Text("e", ev.Kind.String())
	switch ev.Kind {
	case NodeAdd:
		appendNode(&f, ev.NodeSpec)
	case NodeLabels:
		integer(&f, "n", int64(ev.Node))
		appendLabels(&f, ev.NodeSpec)
	case NodeSet:
		integer(&f, "n", int64(ev.Node))
		f.Text("health", ev.Health.String())
		f.Text("power", ev.Power.String())
		appendReason(&f, &ev.Reason)
	case Device:
		integer(&f, "d", int64(ev.Device))
		f.Bool("broken", ev.Broken)
		appendReason(&f, &ev.Reason)
	case Foreign:
		integer(&f, "n", int64(ev.Node))
		appendForeign(&f, ev.Node, ev.Foreign)
	case Recall:
		appendReason(&f, &ev.Reason)
	case Used:
		integer(&f, "d", int64(ev.Device))
		f.Float("use", ev.Use)
		f.Int("mem", int64(ev.Memory))
	case Learnt:
		f.Text("of", ev.Pair.Job)
		f.Text("beside", ev.Pair.Beside)
		f.Text("type", ev.Pair.Type)
		f.Key("speed")
		f.Number(ev.Speed)
	default:
		ev.appendJob(&f)
	}
	return append(f.B, '}', '\n'), f.Err
}

func (ev *Event) appendJob(f *jsontext.Writer) {
	integer(f, "j", int64(ev.Job))
	switch ev.Kind {
	case Submit:
		f.Key("spec")
		ev.appendSpec(f)
		ev.appendEstimate(f)
		appendSerial(f, ev.Spec)
		f.Bool("held", ev.Held)
	case Carry, Past:
		ev.appendCarry(f)
	case Start, Move, Resize:
		appendAlloc(f, ev.Alloc)
		f.Time("delay", ev.Delay)
		if ev.Speed != 1 {
			f.Key("speed")
			f.Number(ev.Speed)
		}
		f.Bool("profile", ev.Profile)
		appendReason(f, &ev.Reason)
	case Merge:
		if ev.With >= 0 {
			integer(f, "with", int64(ev.With))
		}
		f.Text("how", ev.How.String())
		f.Time("kept", ev.Kept)
	case Assign:
		appendAlloc(f, ev.Alloc)
	case Preempt, Evict, Fail:
		f.Time("kept", ev.Kept)
		f.Bool("at_once", ev.AtOnce)
		appendReason(f, &ev.Reason)
	case Hold, Wait:
		appendReason(f, &ev.Reason)
	case End:
		f.Text("outcome", ev.Outcome.String())
	case Speed:
		f.Key("speed")
		f.Number(ev.Speed)
	case Progress:
		f.Time("kept", ev.Kept)
	case Estimate:
		ev.appendEstimate(f)
		appendReason(f, &ev.Reason)
	case Measured:
		ev.appendMeasured(f)
	case Memo:
		appendNote(f, ev.Note)
	case Config:
		appendReported(f, &ev.Reported)
	case Saved:
		f.Time("kept", ev.Kept)
		f.Time("every", ev.Every)
	}
}

// appendReported writes what a job says of its training; what it does not tell is
// left out.
func appendReported(f *jsontext.Writer, r *job.Reported) {
	f.Int("batch", int64(r.Batch))
	f.Float("noise", r.Noise)
	f.Int("epoch", int64(r.Epoch))
	f.Float("pace", r.Pace)
}

// appendNote writes what a policy remembers about a job: the kind of the note and
// its fields.
func appendNote(f *jsontext.Writer, n *job.Note) {
	if n == nil {
		return
	}
	f.Text("kind", n.Kind())
	f.Key("note")
	f.B = append(f.B, n.Fields()...)
}

// appendSerial writes the number of a job for life where that is not its number in
// the log.
func appendSerial(f *jsontext.Writer, j *job.Job) {
	if j.Serial != int64(j.ID) {
		f.Int("serial", j.Serial)
	}
}

func (ev *Event) appendSpec(f *jsontext.Writer) {
	var err error
	if f.B, err = trace.AppendJob(f.B, ev.Spec); err != nil {
		f.Err = fmt.Errorf("job %s: %w", ev.Spec.Key, err)
	}
}

// appendEstimate writes an estimate, even of zero; none is left out.
func (ev *Event) appendEstimate(f *jsontext.Writer) {
	if ev.Estimate >= 0 {
		f.Key("est")
		f.B = unit.AppendSeconds(f.B, ev.Estimate)
	}
}

// integer writes a number even when it is zero.
func integer(f *jsontext.Writer, name string, v int64) {
	f.Key(name)
	f.B = strconv.AppendInt(f.B, v, 10)
}

// appendAlloc writes what a job holds: a piece for each node and role.
func appendAlloc(f *jsontext.Writer, a *cluster.Alloc) {
	if a == nil {
		return
	}
	f.Key("on")
	f.B = append(f.B, '[')
	shares := a.Shares
	for i := range a.Pieces {
		p := &a.Pieces[i]
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = append(f.B, '{')
		integer(f, "n", int64(p.Node))
		f.Int("role", int64(p.Role))
		if p.Tasks != p.Shares {
			integer(f, "tasks", int64(p.Tasks))
		}
		appendShares(f, shares[:p.Shares])
		shares = shares[p.Shares:]
		f.Milli("cpu", p.CPU)
		f.Int("mem", int64(p.Memory))
		f.B = append(f.B, '}')
	}
	f.B = append(f.B, ']')
	f.Time("period", a.Beat.Period)
	f.Time("shift", a.Beat.Shift)
}

// appendShares writes the devices of a piece, and what is taken of each where
// it is not one whole device.
func appendShares(f *jsontext.Writer, shares []cluster.Share) {
	if len(shares) == 0 {
		return
	}
	f.Key("d")
	f.B = append(f.B, '[')
	whole, memory, throttled, batched := true, false, false, false
	for i := range shares {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = strconv.AppendInt(f.B, int64(shares[i].Device), 10)
		whole = whole && shares[i].Milli == 1000
		memory = memory || shares[i].Memory != 0
		throttled = throttled || shares[i].Throttle != 0
		batched = batched || shares[i].Batch != 0
	}
	f.B = append(f.B, ']')
	if !whole {
		appendEach(f, "gpu", shares, func(b []byte, s *cluster.Share) []byte { return jsontext.AppendMilli(b, unit.Milli(s.Milli)) })
	}
	if memory {
		appendEach(f, "gpu_mem", shares, func(b []byte, s *cluster.Share) []byte { return strconv.AppendInt(b, int64(s.Memory), 10) })
	}
	if throttled {
		appendEach(f, "throttle", shares, func(b []byte, s *cluster.Share) []byte { return jsontext.AppendMilli(b, unit.Milli(s.Throttle)) })
	}
	if batched {
		appendEach(f, "batch", shares, func(b []byte, s *cluster.Share) []byte { return strconv.AppendInt(b, int64(s.Batch), 10) })
	}
}

// appendEach writes a list with one entry for each device.
func appendEach(f *jsontext.Writer, key string, shares []cluster.Share, one func([]byte, *cluster.Share) []byte) {
	f.Key(key)
	f.B = append(f.B, '[')
	for i := range shares {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = one(f.B, &shares[i])
	}
	f.B = append(f.B, ']')
}

func appendReason(f *jsontext.Writer, r *job.Reason) {
	if r.Code == job.NoReason {
		return
	}
	f.Text("why", r.Code.String())
	f.Int("need", int64(r.Need))
	f.Int("have", int64(r.Have))
	if r.Job != job.None {
		integer(f, "for", int64(r.Job))
	}
	if r.At == unit.Never {
		f.Text("at", never)
	} else {
		f.Time("at", r.At)
	}
	f.Text("text", r.Text)
}

// appendForeign writes what others use of a node as a piece of what a job holds.
func appendForeign(f *jsontext.Writer, n cluster.NodeID, use *cluster.Foreign) {
	if use.CPU != 0 || use.Memory != 0 || len(use.GPUs) > 0 {
		piece := cluster.Piece{Node: n, Tasks: int32(len(use.GPUs)), Shares: int32(len(use.GPUs)), CPU: use.CPU, Memory: use.Memory}
		appendAlloc(f, &cluster.Alloc{Pieces: []cluster.Piece{piece}, Shares: use.GPUs})
	}
	appendSlots(f, &use.Slots)
}

// appendSlots writes amounts of the counted resources by their numbers, up to the
// last that is not zero.
func appendSlots(f *jsontext.Writer, s *cluster.Slots) {
	n := len(s)
	for n > 0 && s[n-1] == 0 {
		n--
	}
	list(f, "slots", n, func(i int) { f.B = strconv.AppendInt(f.B, s[i], 10) })
}

func appendNode(f *jsontext.Writer, n *cluster.NodeSpec) {
	f.Text("name", n.Name)
	f.Key("gpus")
	f.B = append(f.B, '[')
	for i, g := range n.GPUs {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		f.B = fmt.Appendf(f.B, "[%d,%d]", g.Type, g.Count)
	}
	f.B = append(f.B, ']')
	f.Milli("cpu", n.CPU)
	f.Int("mem", int64(n.Memory))
	f.Int("domain", int64(n.Domain))
	f.Int("pool", int64(n.Pool))
	f.Bool("pooled", n.Pooled)
	appendLabels(f, n)
	appendSlots(f, &n.Slots)
	if n.Links != nil && n.Links.Devices() > 0 {
		appendLinks(f, n.Links)
	}
	if n.NICs != (cluster.NICs{}) {
		f.Key("nics")
		f.B = fmt.Appendf(f.B, "[%d,", n.NICs.Count)
		f.B = append(jsontext.AppendNumber(f.B, n.NICs.GBps), ',')
		f.B = append(strconv.AppendInt(f.B, int64(n.NICs.Latency), 10), ']')
	}
}

// appendLinks writes the links of each device to those before it, and the number and
// generation of the NVLinks where any is known.
func appendLinks(f *jsontext.Writer, l *cluster.Links) {
	var all []cluster.Link
	counted := false
	for i := range l.Devices() {
		for j := range i {
			link := l.Between(i, j)
			counted = counted || link.Count > 0 || link.Gen > 0
			all = append(all, link)
		}
	}
	write := func(name string, one func(cluster.Link)) {
		f.Key(name)
		f.B = append(f.B, '[')
		for i, link := range all {
			if i > 0 {
				f.B = append(f.B, ',')
			}
			one(link)
		}
		f.B = append(f.B, ']')
	}
	write("links", func(k cluster.Link) {
		f.B = fmt.Appendf(f.B, "[%d,", k.Class)
		f.B = append(jsontext.AppendNumber(f.B, k.GBps), ']')
	})
	if counted {
		write("nvlinks", func(k cluster.Link) { f.B = fmt.Appendf(f.B, "[%d,%d]", k.Count, k.Gen) })
	}
}

// appendLabels writes the labels and taints of a node.
func appendLabels(f *jsontext.Writer, n *cluster.NodeSpec) {
	list(f, "labels", len(n.Labels), func(i int) { f.B = jsontext.AppendText(f.B, n.Labels[i].String()) })
	list(f, "taints", len(n.Taints), func(i int) { f.B = jsontext.AppendText(f.B, n.Taints[i].String()) })
}
