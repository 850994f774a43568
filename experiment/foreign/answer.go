package foreign

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
)

// answer is what a process replies to a message.
type answer struct {
	plan []act
	wake time.Duration // when it wants to be asked again, whatever happens until then
}

// act is one element of a plan.
type act struct {
	verb    verb
	job     job.ID
	tasks   int
	where   place.Strategy // nil: that of the settings
	devices []cluster.DeviceID
	room    job.ID // a stop: the job for which it makes room
	why     string
	note    string
	all     []act  // that are done together or not at all
	text    string // as it was written
}

type verb uint8

const (
	nothing verb = iota
	starting
	stopping
	resizing
	moving
	waiting
	remembering
	together
)

// verbs are the keys of acts, by the number of their verb.
var verbs = [...]string{"", "start", "stop", "resize", "move", "wait", "remember", "all"}

// note is what a program remembers about a job.
type note struct{ text string }

// Kind implements sched.Note.
func (*note) Kind() string { return Name }

// Fields implements sched.Note.
func (n *note) Fields(f *sched.Fields) { f.Text("text", &n.text) }

// readHello reads the greeting of a process.
func readHello(line []byte) (past bool, err error) {
	got := int64(0)
	t := jsontext.NewReader(line)
	err = t.Object(func(key []byte) (err error) {
		switch string(key) {
		case "hello":
			got, err = t.Int(0, 1<<31)
		case "past":
			past, err = t.Bool()
		default:
			return fmt.Errorf("unknown field %q; known are: hello, past", key)
		}
		return err
	})
	if err == nil {
		err = t.End()
	}
	if err == nil && got != version {
		err = fmt.Errorf("it must begin with {\"hello\":%d}, the version of the protocol", version)
	}
	return past, err
}

// readAnswer reads the answer to a decision.
func readAnswer(line []byte, decision int64, now time.Duration) (*answer, error) {
	out := &answer{wake: unit.Never}
	got := int64(-1)
	t := jsontext.NewReader(line)
	err := t.Object(func(key []byte) (err error) {
		switch string(key) {
		case "decision":
			got, err = t.Int(0, 1<<62)
		case "plan":
			out.plan, err = readActs(t)
		case "wake":
			if t.Peek() == 'n' {
				return t.Skip()
			}
			var at int64
			at, err = t.Scaled(int64(time.Second))
			out.wake = time.Duration(at)
		default:
			return fmt.Errorf("unknown field %q; known are: decision, plan, wake", key)
		}
		return err
	})
	if err == nil {
		err = t.End()
	}
	switch {
	case err != nil:
		return nil, err
	case got < 0:
		return nil, fmt.Errorf("the field decision is missing, which is %d", decision)
	case got != decision:
		return nil, fmt.Errorf("it answers decision %d, and was asked for decision %d", got, decision)
	}
	return out, nil
}

func readActs(t *jsontext.Reader) ([]act, error) {
	var out []act
	err := t.Array(func() error {
		text, err := t.Raw()
		if err != nil {
			return err
		}
		a, err := readAct(text)
		if err != nil {
			return fmt.Errorf("act %d of its plan: %w", len(out)+1, err)
		}
		out = append(out, a)
		return nil
	})
	return out, err
}

// readAct reads one act: an object with one verb.
func readAct(text []byte) (act, error) {
	a := act{job: job.None, room: job.None, text: string(text)}
	t := jsontext.NewReader(text)
	err := t.Object(func(key []byte) error { return a.field(t, string(key)) })
	if err == nil && a.verb == nothing {
		err = fmt.Errorf("it says none of start, stop, resize, move, wait, remember, all")
	}
	if err == nil {
		err = a.fits()
	}
	return a, err
}

// field reads one field of an act.
func (a *act) field(t *jsontext.Reader, key string) error {
	for v, name := range verbs {
		if name != key || v == 0 {
			continue
		}
		if a.verb != nothing {
			return fmt.Errorf("it says %s and %s: write an act for each", verbs[a.verb], name)
		}
		a.verb = verb(v)
		if a.verb == together {
			var err error
			a.all, err = readActs(t)
			return err
		}
		return readJob(t, &a.job)
	}
	switch key {
	case "tasks":
		n, err := t.Int(1, 1<<30)
		a.tasks = int(n)
		return err
	case "place":
		name, err := t.Text()
		if err != nil {
			return err
		}
		a.where, err = strategy(string(name))
		return err
	case "devices":
		return t.Array(func() error {
			n, err := t.Int(0, 1<<31-1)
			a.devices = append(a.devices, cluster.DeviceID(n))
			return err
		})
	case "for":
		return readJob(t, &a.room)
	case "why":
		return readText(t, &a.why)
	case "note":
		return readText(t, &a.note)
	}
	return fmt.Errorf("unknown field %q", key)
}

func readJob(t *jsontext.Reader, id *job.ID) error {
	n, err := t.Int(0, 1<<31-1)
	*id = job.ID(n)
	return err
}

func readText(t *jsontext.Reader, to *string) error {
	text, err := t.Text()
	*to = string(text)
	return err
}

// strategy finds a placement strategy by name.
func strategy(name string) (place.Strategy, error) {
	var found place.Strategy = place.Pack
	p := place.Param(&found)
	err := param.Set{p}.Set(p.Name, name)
	return found, err
}

// fits checks that an act has the fields that its verb takes, and no others.
func (a *act) fits() error {
	is := func(verbs ...verb) bool {
		for _, v := range verbs {
			if v == a.verb {
				return true
			}
		}
		return false
	}
	wrong := func(field string) error { return fmt.Errorf("%s does not take the field %s", verbs[a.verb], field) }
	switch {
	case a.tasks > 0 && !is(starting, resizing):
		return wrong("tasks")
	case a.tasks == 0 && is(resizing):
		return fmt.Errorf("resize needs the field tasks")
	case a.where != nil && !is(starting, resizing, moving):
		return wrong("place")
	case a.devices != nil && !is(starting, moving):
		return wrong("devices")
	case a.devices != nil && (a.where != nil || a.tasks > 0):
		return fmt.Errorf("devices stand for place and tasks: leave these out")
	case a.room != job.None && !is(stopping):
		return wrong("for")
	case a.why != "" && !is(stopping, waiting):
		return wrong("why")
	case a.why == "" && is(waiting):
		return fmt.Errorf("wait needs the field why")
	case a.note != "" && !is(remembering):
		return wrong("note")
	}
	return nil
}
