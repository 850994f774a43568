package eventlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/jsontext"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/unit"
)

// Reader reads a log, plain or compressed.
type Reader struct {
	Header Header

	name   string
	in     *bufio.Reader
	closer func()
	long   []byte
	line   int
	text   jsontext.Reader
	jobs   trace.JobText
	spec   *job.Job
	alloc  cluster.Alloc
	node   cluster.NodeSpec
}

// maxLine bounds a line of a log.
const maxLine = 16 << 20

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
		z, err := zstd.NewReader(l.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l.in, l.closer = bufio.NewReaderSize(z, 1<<16), z.Close
	}
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		err = ErrNotLog
	}
	if err == nil {
		err = l.Header.read(line)
	}
	if err != nil {
		return nil, l.wrap(err)
	}
	return l, nil
}

// Close ends the reading. It does not close the file behind the log.
func (l *Reader) Close() { l.closer() }

// Line is the number of the line that was read last, counted from one.
func (l *Reader) Line() int { return l.line }

// next is the next line without its end. A last line without an end was torn
// while it was written.
func (l *Reader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.line++
	if err == nil {
		return line[:len(line)-1], nil
	}
	l.long = append(l.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(l.long) < maxLine {
		line, err = l.in.ReadSlice('\n')
		l.long = append(l.long, line...)
	}
	switch {
	case err == nil:
		return l.long[:len(l.long)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errors.New("the line is too long")
	case errors.Is(err, io.EOF) && len(l.long) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the last line is torn off: %w", io.ErrUnexpectedEOF)
	}
	return nil, err
}

func (l *Reader) wrap(err error) error { return fmt.Errorf("%s:%d: %w", l.name, l.line, err) }

// Next reads the next event; io.EOF at the end. What the event points to, but
// for the Spec of a job, is valid until the next call.
func (l *Reader) Next(ev *Event) error {
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err == nil {
		err = l.event(ev, line)
	}
	if err != nil {
		return l.wrap(err)
	}
	return nil
}

func (l *Reader) event(ev *Event, line []byte) error {
	*ev = Event{Job: job.None, Estimate: -1, Speed: 1, Reason: job.Reason{Job: job.None}}
	l.spec = nil
	l.node = cluster.NodeSpec{}
	l.alloc.Reset()
	t := &l.text
	t.Reset(line)
	kind := kinds
	err := t.Object(func(key []byte) error {
		if string(key) == "e" {
			var err error
			kind, err = l.kind()
			return err
		}
		return l.field(ev, key)
	})
	if err == nil {
		err = t.End()
	}
	if err != nil {
		return err
	}
	if kind == kinds {
		return errors.New("an event without its kind (e)")
	}
	ev.Kind = kind
	return l.complete(ev)
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
	return kinds, fmt.Errorf("no kind of event %q", v)
}

// complete checks that an event has what its kind needs.
func (l *Reader) complete(ev *Event) error {
	switch ev.Kind {
	case Submit:
		if l.spec == nil {
			return errors.New("a submission without the job (spec)")
		}
		ev.Spec = l.spec
		ev.Spec.ID = ev.Job
	case Assign, Move, Resize:
		if len(l.alloc.Pieces) == 0 {
			return fmt.Errorf("a %s without the devices (on)", ev.Kind)
		}
		ev.Alloc = &l.alloc
	case Start:
		if len(l.alloc.Pieces) > 0 {
			ev.Alloc = &l.alloc
		}
	case NodeAdd:
		ev.NodeSpec = &l.node
		return nil
	case NodeSet, Device:
		return nil
	case End:
		if !ev.Outcome.Over() {
			return errors.New("an end without its outcome")
		}
	}
	if ev.Job < 0 {
		return fmt.Errorf("a %s without its job (j)", ev.Kind)
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
	case "on":
		return t.Array(l.piece)
	case "spec":
		l.spec = new(job.Job)
		return l.jobs.Read(t, l.spec)
	case "est":
		return seconds(t, &ev.Estimate)
	case "delay":
		return seconds(t, &ev.Delay)
	case "kept":
		return seconds(t, &ev.Kept)
	case "at_once":
		ev.AtOnce, err = t.Bool()
		return err
	case "speed":
		ev.Speed, err = t.Float()
		return err
	case "outcome":
		return l.outcome(ev)
	case "memo":
		n := 0
		return t.Array(func() (err error) {
			if n == len(ev.Memo) {
				return errors.New("a memo of two numbers")
			}
			ev.Memo[n], err = t.Int(-1<<63, 1<<63-1)
			n++
			return err
		})
	}
	if done, err := l.reason(&ev.Reason, key); done {
		return err
	}
	return l.nodeField(ev, key)
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
		return true, seconds(t, &r.At)
	case "text":
		return true, text(t, &r.Text)
	}
	return false, nil
}

// piece reads what a job holds in one node.
func (l *Reader) piece() error {
	t := &l.text
	p := cluster.Piece{Tasks: -1}
	from := len(l.alloc.Shares)
	gpus, memories := from, from
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
			return t.Array(func() error {
				if gpus == len(l.alloc.Shares) {
					return errors.New("as many parts (gpu) as devices (d), and after them")
				}
				var m unit.Milli
				err := milli(t, &m)
				l.alloc.Shares[gpus].Milli = int32(min(m, 1<<31-1))
				gpus++
				return err
			})
		case "gpu_mem":
			return t.Array(func() error {
				if memories == len(l.alloc.Shares) {
					return errors.New("as many sizes (gpu_mem) as devices (d), and after them")
				}
				err := bytes(t, &l.alloc.Shares[memories].Memory)
				memories++
				return err
			})
		case "cpu":
			return milli(t, &p.CPU)
		case "mem":
			return bytes(t, &p.Memory)
		}
		return unknown(key)
	})
	if p.Tasks < 0 {
		p.Tasks = p.Shares
	}
	l.alloc.Pieces = append(l.alloc.Pieces, p)
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
	case "health":
		return named(t, &ev.Health, cluster.Up, cluster.Cordoned, cluster.Down)
	case "power":
		return named(t, &ev.Power, cluster.Awake, cluster.Asleep, cluster.Booting)
	case "name":
		return text(t, &n.Name)
	case "gpus":
		return t.Array(func() error {
			pair, err := l.pair()
			n.GPUs = append(n.GPUs, cluster.GPUs{Type: cluster.TypeID(pair[0]), Count: int(pair[1])})
			return err
		})
	case "cpu":
		return milli(t, &n.CPU)
	case "mem":
		return bytes(t, &n.Memory)
	case "domain":
		return number(t, &n.Domain)
	case "pool":
		return number(t, &n.Pool)
	case "pooled":
		n.Pooled, err = t.Bool()
		return err
	case "links":
		return l.links()
	}
	return unknown(key)
}

func (l *Reader) pair() (pair [2]float64, err error) {
	n := 0
	err = l.text.Array(func() (err error) {
		if n == 2 {
			return errors.New("a pair of numbers")
		}
		pair[n], err = l.text.Float()
		n++
		return err
	})
	return pair, err
}

// links reads the links of each device to those before it, class and speed.
func (l *Reader) links() error {
	var all [][2]float64
	err := l.text.Array(func() error {
		pair, err := l.pair()
		all = append(all, pair)
		return err
	})
	n := 1
	for n*(n-1)/2 < len(all) {
		n++
	}
	links := cluster.NewLinks(n)
	for i, k := 0, 0; i < n; i++ {
		for j := 0; j < i && k < len(all); j, k = j+1, k+1 {
			if c := all[k][0]; c < 0 || c > float64(cluster.CrossSocket) {
				return fmt.Errorf("no class of links %v", c)
			}
			links.Connect(i, j, cluster.LinkClass(all[k][0]), all[k][1])
		}
	}
	l.node.Links = links
	return err
}

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
