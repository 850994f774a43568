package eventlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// Reader reads a log, plain or compressed.
type Reader struct {
	Header Header

	name   string
	in     *bufio.Reader
	closer func()
	long   []byte
	line   int
	whole  int64
	behind *behind
	sum    checksum
	note   struct{ kind, fields []byte }
	text   jsontext.Reader
	jobs   trace.JobText
	spec   *job.Job
	serial int64
	record job.Record
	alloc  cluster.Alloc
	node   cluster.NodeSpec
	others cluster.Foreign
}

// maxLine bounds a line of a log, and maxWindow what a compressed one may make
// its reader remember (the limit of the zstd tool).
const (
	maxLine   = 16 << 20
	maxWindow = 128 << 20
)

// ErrTorn is the error of a log that breaks off in the middle of a line or of a
// compressed block, as a crash or a copy of a log that is still written leaves
// it. All whole events before were read.
var ErrTorn = errors.New("the log breaks off here")

// NewReader begins to read a log; name is for its errors. It fails with
// ErrNotLog on a file of another kind.
func NewReader(r io.Reader, name string) (*Reader, error) {
	l := &Reader{name: name, in: bufio.NewReaderSize(r, 1<<16), closer: func() {}}
	magic, _ := l.in.Peek(4) // a shorter file is not compressed
	switch {
	case len(magic) > 1 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(l.in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l.in = bufio.NewReaderSize(z, 1<<16)
	case len(magic) > 3 && magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd:
		z, err := zstd.NewReader(l.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l.in, l.closer = bufio.NewReaderSize(z, 1<<16), z.Close
	}
	line, err := l.next()
	switch {
	case errors.Is(err, io.EOF):
		l.line, err = 1, ErrNotLog
	case errors.Is(err, ErrTorn) && !strings.HasPrefix(opening, string(l.long[:min(len(opening), len(l.long))])):
		err = ErrNotLog
	case err == nil:
		l.sum, err = l.Header.open(line)
	}
	if err != nil {
		l.Close()
		return nil, l.Wrap(err)
	}
	return l, nil
}

// ErrAnother is the error of a line where another log begins, as a live world
// writes them one behind the other. Another goes on with it.
var ErrAnother = errors.New("another log begins here")

// behind is a log that begins where the present one ends.
type behind struct {
	header Header
	sum    checksum
	torn   bool // the present one breaks off in the middle of the same line
	err    error
}

// open reads a header with its checksum, as far as its version has one.
func (h *Header) open(line []byte) (sum checksum, err error) {
	version, err := h.read(line)
	sum.none = version < 2 && !isSealed(line)
	if wrong := sum.check(line); err == nil || errors.Is(wrong, ErrChecksum) { // it need not be the version that it tells
		err = wrong
	}
	return sum, err
}

// begins tells whether another log begins in a line that is no event. The quotes
// of its opening can stand in no line of a log but there.
func (l *Reader) begins(line []byte) bool {
	at := bytes.Index(line, []byte(opening))
	if at < 0 {
		return false
	}
	l.behind = &behind{torn: at > 0}
	l.behind.sum, l.behind.err = l.behind.header.open(line[at:])
	return true
}

// Another goes on with the log for which Next failed with ErrAnother: Header is
// its header from then on. torn tells that the one before breaks off in the
// middle of its last line.
func (l *Reader) Another() (torn bool, err error) {
	b := l.behind
	if b == nil {
		return false, l.Wrap(errors.New("no other log begins here"))
	}
	l.behind = nil
	if b.err != nil {
		return b.torn, l.Wrap(b.err)
	}
	l.Header, l.sum = b.header, b.sum
	return b.torn, nil
}

// Close ends the reading. It does not close the file behind the log.
func (l *Reader) Close() { l.closer() }

// Name is what the log is called in errors.
func (l *Reader) Name() string { return l.name }

// Whole is the number of bytes of the whole lines that were read, unpacked.
// After ErrTorn it is where a plain log must be cut off before it goes on.
func (l *Reader) Whole() int64 { return l.whole }

// Wrap says of an error that it is about the line that was read last.
func (l *Reader) Wrap(err error) error { return fmt.Errorf("%s:%d: %w", l.name, l.line, err) }

// next is the next line without its end. A last line without an end was torn
// while it was written.
func (l *Reader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.line++
	if err == nil {
		l.whole += int64(len(line))
		return line[:len(line)-1], nil
	}
	l.long = append(l.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(l.long) < maxLine {
		line, err = l.in.ReadSlice('\n')
		l.long = append(l.long, line...)
	}
	switch {
	case err == nil:
		l.whole += int64(len(l.long))
		return l.long[:len(l.long)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errors.New("the line is too long")
	case errors.Is(err, io.EOF) && len(l.long) == 0:
		l.line--
		return nil, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrTorn
	}
	return nil, err
}

// Next reads the next event; io.EOF at the end, ErrTorn (wrapped) where the log
// breaks off, ErrAnother (wrapped) where another one begins, ErrChecksum
// (wrapped) where it is not as it was written. Events of kinds that are not
// known are passed over. Everything to which the event points, except the Spec
// of a job and its note, is valid until the next call.
func (l *Reader) Next(ev *Event) error {
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		known := true
		if err == nil {
			if known, err = l.event(ev, line); err != nil && l.begins(line) {
				err = ErrAnother
			}
		}
		if err != nil {
			return l.Wrap(err)
		}
		if known {
			return nil
		}
	}
}

// event reads one line. It tells whether the kind of event is known.
func (l *Reader) event(ev *Event, line []byte) (known bool, err error) {
	*ev = Event{Job: job.None, Estimate: -1, Speed: -1, Reason: job.Reason{Job: job.None}, With: job.None, Node: cluster.None, Device: cluster.None}
	if err := l.sum.check(line); err != nil {
		return false, err
	}
	l.spec, l.serial = nil, 0
	l.record = job.Record{Placed: -1, FirstStart: -1, End: -1, With: job.None}
	l.node = cluster.NodeSpec{}
	l.note.kind, l.note.fields = nil, nil
	l.alloc.Reset()
	t := &l.text
	t.Reset(line)
	kind := kinds
	told := false
	err = t.Object(func(key []byte) error {
		if string(key) == "e" {
			var err error
			told = true
			kind, err = l.kind()
			return err
		}
		return l.field(ev, key)
	})
	if err == nil {
		err = t.End()
	}
	switch {
	case told && kind == kinds: // of a later program, whatever its fields are
		return false, object(t, line)
	case err != nil:
		return false, err
	case !told:
		return false, errors.New("an event without its kind (e)")
	}
	ev.Kind = kind
	return true, l.complete(ev)
}

// Parse reads one event that stands by itself, as Append writes it, without a checksum. It
// fails on an event of a kind that is not known.
func (ev *Event) Parse(text []byte) error {
	l := Reader{sum: checksum{none: true}}
	known, err := l.event(ev, text)
	if err == nil && !known {
		err = errors.New("an event of an unknown kind (e)")
	}
	return err
}

// object checks that a line is one object and nothing else.
func object(t *jsontext.Reader, line []byte) error {
	t.Reset(line)
	if err := t.Object(func([]byte) error { return t.Skip() }); err != nil {
		return err
	}
	return t.End()
}

func (l *Reader) kind() (Kind, error) {
	v, err := l.text.Text()
	if err != nil {
		return kinds, err
	}
	for k, name := range kindNames {
		if name == string(v) {
			return Kind(k), nil
		}
	}
	return kinds, nil // of a later program
}

// complete checks that an event has what its kind needs.
func (l *Reader) complete(ev *Event) error {
	given := ev.Speed >= 0
	if !given {
		ev.Speed = 1
	}
	switch ev.Kind {
	case Submit:
		if l.spec == nil {
			return errors.New("submit without the job (spec)")
		}
		ev.Spec = l.spec
		ev.Spec.ID, ev.Spec.Serial = ev.Job, l.serial
	case Carry, Past:
		if err := l.carried(ev); err != nil {
			return err
		}
	case Assign, Move, Resize:
		if len(l.alloc.Pieces) == 0 {
			return fmt.Errorf("%s without the devices (on)", ev.Kind)
		}
		ev.Alloc = &l.alloc
	case Start:
		if len(l.alloc.Pieces) > 0 {
			ev.Alloc = &l.alloc
		}
	case NodeAdd:
		ev.NodeSpec = &l.node
		return nil
	case NodeSet, NodeLabels, Foreign, Recall:
		return l.ofNode(ev)
	case Device, Used:
		if ev.Device < 0 {
			return fmt.Errorf("%s without its number (d)", ev.Kind)
		}
		if ev.Kind == Used {
			ev.Memory, l.node = l.node.Memory, cluster.NodeSpec{}
		}
		return nil
	case Learnt:
		if !(given && ev.Speed > 0 && ev.Speed <= 1) {
			return errors.New("learnt without a speed above 0 and at most 1 (speed)")
		}
		return nil
	case Merge:
		if (ev.With >= 0) == (ev.How == job.Apart) {
			return errors.New("merge without the other job (with), or with one that it is apart from")
		}
	case Measured:
		if ev.Measured == nil {
			return errors.New("measured without what (measured)")
		}
	case Memo:
		ev.Note = l.noted()
	case Config:
		if err := ev.Reported.Check(); err != nil {
			return fmt.Errorf("%s: %w", ev.Kind, err)
		}
	case Speed:
		if !given {
			return errors.New("speed without its value (speed)")
		}
	case End:
		if !ev.Outcome.Over() {
			return errors.New("end without its outcome (outcome)")
		}
	}
	if ev.Job < 0 {
		return fmt.Errorf("%s without its job (j)", ev.Kind)
	}
	return nil
}

// ofNode completes an event about a node: its state, or what others use of it; or about nodes
// that are wanted back.
func (l *Reader) ofNode(ev *Event) error {
	if ev.Kind == Recall {
		if ev.Reason.Code != job.TakenBack || ev.Reason.Need < 0 {
			return fmt.Errorf("recall without its reason (why), or with %d nodes (need)", ev.Reason.Need)
		}
		return nil
	}
	if ev.Node < 0 {
		return fmt.Errorf("%s without its node (n)", ev.Kind)
	}
	switch ev.Kind {
	case NodeSet:
		return nil
	case NodeLabels:
		ev.NodeSpec = &l.node
		return nil
	}
	l.others = cluster.Foreign{Slots: l.node.Slots, GPUs: l.alloc.Shares}
	switch n := len(l.alloc.Pieces); {
	case n > 1 || n == 1 && l.alloc.Pieces[0].Node != ev.Node:
		return errors.New("foreign with what others use of another node (on)")
	case n == 1:
		l.others.CPU, l.others.Memory = l.alloc.Pieces[0].CPU, l.alloc.Pieces[0].Memory
	}
	ev.Foreign = &l.others
	return nil
}

// carried completes an event that takes a job over from an earlier log.
func (l *Reader) carried(ev *Event) error {
	if l.spec == nil || l.record.Phase == job.Unknown {
		return fmt.Errorf("%s without the job (spec) or what had become of it (record)", ev.Kind)
	}
	if l.record.Phase.Over() != (ev.Kind == Past) {
		return fmt.Errorf("%s of a job that is %s", ev.Kind, l.record.Phase)
	}
	ev.Spec, ev.Record = l.spec, &l.record
	ev.Spec.ID, ev.Spec.Serial, ev.Record.Note = ev.Job, l.serial, l.noted()
	if r := ev.Record; !r.Phase.HasDevices() {
		r.Placed = 0
	} else if r.Placed < 0 { // it is not told
		r.Placed = r.Since
	}
	if len(l.alloc.Pieces) > 0 {
		ev.Alloc = &l.alloc
	}
	return nil
}

func (l *Reader) field(ev *Event, key []byte) (err error) {
	t := &l.text
	switch string(key) {
	case "t":
		return seconds(t, &ev.Time)
	case "j":
		return number(t, &ev.Job)
	case "period", "shift":
		return l.beat(key)
	case "on":
		return t.Array(l.piece)
	case "spec":
		l.spec = new(job.Job)
		return t.Part(func(text []byte, at int) (int, error) { return l.jobs.Read(text, at, l.spec) })
	case "record":
		return t.Object(l.recordField)
	case "est":
		return seconds(t, &ev.Estimate)
	case "delay":
		return seconds(t, &ev.Delay)
	case "kept":
		return seconds(t, &ev.Kept)
	case "every":
		return seconds(t, &ev.Every)
	case "at_once":
		return flag(t, &ev.AtOnce)
	case "frozen":
		return flag(t, &ev.Frozen)
	case "held":
		return flag(t, &ev.Held)
	case "profile":
		return flag(t, &ev.Profile)
	case "with":
		return number(t, &ev.With)
	case "measured":
		return l.measured(ev)
	case "of":
		return text(t, &ev.Pair.Job)
	case "beside":
		return text(t, &ev.Pair.Beside)
	case "type":
		return text(t, &ev.Pair.Type)
	case "how":
		return named(t, &ev.How, job.Apart, job.Together, job.After)
	case "speed":
		if ev.Speed, err = t.Float(); err == nil && ev.Speed < 0 {
			err = fmt.Errorf("a speed of %v", ev.Speed)
		}
		return err
	case "outcome":
		return l.outcome(ev)
	case "kind":
		l.note.kind, err = t.Text()
		l.note.kind = bytes.Clone(l.note.kind)
		return err
	case "note":
		if t.Peek() != '{' {
			return t.Wrong("an object")
		}
		l.note.fields, err = t.Raw()
		return err
	case "serial":
		l.serial, err = t.Int(0, math.MaxInt64)
		return err
	case "left":
		return number(t, &ev.Left)
	}
	if done, err := l.reported(&ev.Reported, key); done {
		return err
	}
	if done, err := l.reason(&ev.Reason, key); done {
		return err
	}
	return l.nodeField(ev, key)
}

// flag reads a boolean.
func flag(t *jsontext.Reader, to *bool) (err error) {
	*to, err = t.Bool()
	return err
}

// reported reads a field of what a job says of its training.
func (l *Reader) reported(r *job.Reported, key []byte) (done bool, err error) {
	t := &l.text
	switch string(key) {
	case "batch":
		return true, number(t, &r.Batch)
	case "noise":
		r.Noise, err = t.Float()
		return true, err
	case "epoch":
		return true, number(t, &r.Epoch)
	case "pace":
		r.Pace, err = t.Float()
		return true, err
	}
	return false, nil
}

// noted is the note that was read; nil: none.
func (l *Reader) noted() *job.Note {
	return job.NewNote(string(l.note.kind), l.note.fields)
}

func (l *Reader) outcome(ev *Event) error {
	v, err := l.text.Text()
	if err != nil {
		return err
	}
	for p := job.Done; p <= job.Cancelled; p++ {
		if p.String() == string(v) {
			ev.Outcome = p
			return nil
		}
	}
	return fmt.Errorf("no outcome %q", v)
}

func (l *Reader) reason(r *job.Reason, key []byte) (done bool, err error) {
	t := &l.text
	switch string(key) {
	case "why":
		v, err := t.Text()
		if err != nil {
			return true, err
		}
		code, ok := job.ParseReasonCode(string(v))
		if !ok {
			return true, fmt.Errorf("no reason %q", v)
		}
		r.Code = code
		return true, nil
	case "need":
		return true, number(t, &r.Need)
	case "have":
		return true, number(t, &r.Have)
	case "for":
		return true, number(t, &r.Job)
	case "at":
		if t.Peek() != '"' {
			return true, seconds(t, &r.At)
		}
		if v, err := t.Text(); err != nil || string(v) != never {
			return true, t.Wrong("seconds, or never")
		}
		r.At = unit.Never
		return true, nil
	case "text":
		return true, text(t, &r.Text)
	}
	return false, nil
}

// beat reads a part of when a job is told to begin its iterations.
func (l *Reader) beat(key []byte) error {
	if string(key) == "period" {
		return seconds(&l.text, &l.alloc.Beat.Period)
	}
	return seconds(&l.text, &l.alloc.Beat.Shift)
}

// piece reads what a job holds in one node.
func (l *Reader) piece() error {
	t := &l.text
	p := cluster.Piece{Tasks: -1}
	from := len(l.alloc.Shares)
	gpus, memories, throttles, batches := from, from, from, from
	err := t.Object(func(key []byte) error {
		switch string(key) {
		case "n":
			return number(t, &p.Node)
		case "role":
			n, err := t.Int(0, job.MaxRoles-1)
			p.Role = uint8(n)
			return err
		case "tasks":
			return number(t, &p.Tasks)
		case "d":
			return t.Array(func() error {
				s := cluster.Share{Milli: 1000}
				err := number(t, &s.Device)
				l.alloc.Shares = append(l.alloc.Shares, s)
				p.Shares++
				return err
			})
		case "gpu":
			return l.each("parts (gpu)", &gpus, func(s *cluster.Share) error { return part(t, &s.Milli) })
		case "gpu_mem":
			return l.each("sizes (gpu_mem)", &memories, func(s *cluster.Share) error { return size(t, &s.Memory) })
		case "throttle":
			return l.each("parts (throttle)", &throttles, func(s *cluster.Share) error { return part(t, &s.Throttle) })
		case "batch":
			return l.each("numbers of samples (batch)", &batches, func(s *cluster.Share) error { return number(t, &s.Batch) })
		case "cpu":
			return milli(t, &p.CPU)
		case "mem":
			return size(t, &p.Memory)
		}
		return t.Skip()
	})
	if p.Tasks < 0 {
		p.Tasks = p.Shares
	}
	l.alloc.Pieces = append(l.alloc.Pieces, p)
	return err
}

// each reads a list with an entry for each device of a piece.
func (l *Reader) each(what string, at *int, one func(*cluster.Share) error) error {
	return l.text.Array(func() error {
		if *at == len(l.alloc.Shares) {
			return fmt.Errorf("as many %s as devices (d), and after them", what)
		}
		err := one(&l.alloc.Shares[*at])
		*at++
		return err
	})
}

// part reads a part of a device.
func part(t *jsontext.Reader, to *int32) error {
	var m unit.Milli
	err := milli(t, &m)
	*to = int32(min(m, 1<<31-1))
	return err
}

func (l *Reader) nodeField(ev *Event, key []byte) (err error) {
	t, n := &l.text, &l.node
	switch string(key) {
	case "n":
		return number(t, &ev.Node)
	case "d":
		return number(t, &ev.Device)
	case "broken":
		ev.Broken, err = t.Bool()
		return err
	case "use":
		if ev.Use, err = t.Float(); err == nil && ev.Use < 0 {
			err = fmt.Errorf("a use of %v", ev.Use)
		}
		return err
	case "health":
		return named(t, &ev.Health, cluster.Up, cluster.Cordoned, cluster.Down)
	case "power":
		return named(t, &ev.Power, cluster.Awake, cluster.Asleep, cluster.Booting)
	case "name":
		return text(t, &n.Name)
	case "gpus":
		return t.Array(l.gpus)
	case "cpu":
		return milli(t, &n.CPU)
	case "mem":
		return size(t, &n.Memory)
	case "domain":
		return number(t, &n.Domain)
	case "pool":
		return number(t, &n.Pool)
	case "pooled":
		n.Pooled, err = t.Bool()
		return err
	case "slots":
		return l.slots(&n.Slots)
	case "links":
		return l.links()
	case "nvlinks":
		return l.nvlinks()
	case "nics":
		return l.nics()
	case "labels":
		return each(t, label.ParseLabel, &n.Labels)
	case "taints":
		return each(t, label.ParseTaint, &n.Taints)
	}
	return t.Skip() // of a later program
}

// each reads a list of texts that mean something.
func each[T any](t *jsontext.Reader, parse func(string) (T, error), to *[]T) error {
	return t.Array(func() error {
		v, err := t.Text()
		if err != nil {
			return err
		}
		one, err := parse(string(v))
		*to = append(*to, one)
		return err
	})
}

// slots reads amounts of the counted resources by their numbers.
func (l *Reader) slots(to *cluster.Slots) error {
	n := 0
	return l.text.Array(func() (err error) {
		if n == len(to) {
			return fmt.Errorf("more than %d counted resources", len(to))
		}
		to[n], err = l.text.Int(0, cluster.MostSlots)
		n++
		return err
	})
}

// gpus reads a group of equal GPUs, [type, count].
func (l *Reader) gpus() error {
	var g [2]int64
	n := 0
	err := l.text.Array(func() (err error) {
		if n == len(g) {
			return errors.New("a type and a count of GPUs")
		}
		g[n], err = l.text.Int(0, math.MaxInt32)
		n++
		return err
	})
	if err == nil && n != len(g) {
		err = errors.New("a type and a count of GPUs")
	}
	l.node.GPUs = append(l.node.GPUs, cluster.GPUs{Type: cluster.TypeID(g[0]), Count: int(g[1])})
	return err
}

// maxLinks bounds the links that a node tells: those of 1024 devices.
const maxLinks = 1024 * 1023 / 2

// links reads the links of each device to those before it, class and speed:
// for n devices n(n-1)/2 of them.
func (l *Reader) links() error {
	var all []cluster.Link
	err := l.text.Array(func() error {
		k, err := l.link()
		all = append(all, k)
		if err == nil && len(all) > maxLinks {
			err = fmt.Errorf("more than %d links", maxLinks)
		}
		return err
	})
	if err != nil {
		return err
	}
	n := 1
	for n*(n-1)/2 < len(all) {
		n++
	}
	if n*(n-1)/2 != len(all) {
		return fmt.Errorf("%d links: those of each device to all before it are needed", len(all))
	}
	links := cluster.NewLinks(n)
	for i, k := 0, 0; i < n; i++ {
		for j := 0; j < i; j, k = j+1, k+1 {
			links.Connect(i, j, all[k])
		}
	}
	l.node.Links = links
	return nil
}

// link reads [class, speed].
func (l *Reader) link() (k cluster.Link, err error) {
	n, class := 0, int64(0)
	err = l.text.Array(func() (err error) {
		switch n++; n {
		case 1:
			class, err = l.text.Int(0, int64(cluster.CrossSocket))
			k.Class = cluster.LinkClass(class)
		case 2:
			if k.GBps, err = l.text.Float(); err == nil && k.GBps < 0 {
				err = errors.New("a negative speed of a link")
			}
		default:
			err = errors.New("a link is its class and its speed")
		}
		return err
	})
	if err == nil && n != 2 {
		err = errors.New("a link is its class and its speed")
	}
	return k, err
}

// nvlinks reads the NVLinks of each link, [count, generation], in the order of the links,
// which stand before them.
func (l *Reader) nvlinks() error {
	links, i, j := l.node.Links, 1, 0
	if links == nil {
		return errors.New("the links (links) before their NVLinks")
	}
	err := l.text.Array(func() error {
		if i >= links.Devices() {
			return errors.New("as many NVLinks as links (links)")
		}
		link, n := links.Between(i, j), 0
		err := l.text.Array(func() (err error) {
			v := int64(0)
			switch n++; n {
			case 1:
				v, err = l.text.Int(0, cluster.MaxNVLinks)
				link.Count = uint8(v)
			case 2:
				v, err = l.text.Int(0, cluster.MaxNVLinkGen)
				link.Gen = uint8(v)
			default:
				err = errors.New("NVLinks are their count and their generation")
			}
			return err
		})
		links.Connect(i, j, link)
		if j++; j == i {
			i, j = i+1, 0
		}
		if err == nil && n != 2 {
			err = errors.New("NVLinks are their count and their generation")
		}
		return err
	})
	if err == nil && (j != 0 || i < links.Devices()) {
		err = errors.New("as many NVLinks as links (links)")
	}
	return err
}

// nics reads the network adapters of a node, [count, speed, latency].
func (l *Reader) nics() error {
	to, n := &l.node.NICs, 0
	err := l.text.Array(func() (err error) {
		v := int64(0)
		switch n++; n {
		case 1:
			v, err = l.text.Int(1, cluster.MaxNICs)
			to.Count = int(v)
		case 2:
			to.GBps, err = l.text.Float()
		case 3:
			v, err = l.text.Int(0, int64(time.Second))
			to.Latency = time.Duration(v)
		default:
			err = errNICs
		}
		return err
	})
	if err == nil && n != 3 {
		return errNICs
	}
	if err == nil {
		err = to.Check()
	}
	return err
}

var errNICs = errors.New("network adapters are their count, their speed and their latency")

// named reads the name of one of some values.
func named[T fmt.Stringer](t *jsontext.Reader, to *T, values ...T) error {
	v, err := t.Text()
	if err != nil {
		return err
	}
	for _, value := range values {
		if value.String() == string(v) {
			*to = value
			return nil
		}
	}
	return fmt.Errorf("%q is none of %v", v, values)
}
