package foreign

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain runs the tests, or is a program that decides: the test binary is started with
// -decide=MODE for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if mode, ok := strings.CutPrefix(os.Args[1], "-decide="); ok {
			decide(mode)
			return
		}
	}
	os.Exit(m.Run())
}

// child is the command of a program that decides.
func child(t testing.TB, mode string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return `"` + exe + `" -decide=` + mode
}

// heard is a message as a program reads it.
type heard struct {
	Decision int64
	Now      float64
	First    bool
	Random   int64
	Total    float64
	Jobs     []*known
	Nodes    []struct {
		Node     int
		Unusable bool
		Broken   []int
		GPUs     []struct{ Count, Device int }
	}
}

// known is what a program knows of a job.
type known struct {
	Job  int
	Spec *struct {
		GPUs float64
		Stop string
	}
	Phase                  string
	Estimate, End          *float64
	Progress, Held         float64
	StartTakes             float64  `json:"start_takes"`
	NextSave               *float64 `json:"next_save"`
	Never, Astray, Unsaved bool
	Devices                []int
	Parts                  []float64
	Note                   string
}

// program is a program that decides: what it knows.
type program struct {
	jobs   map[int]*known
	usable map[int]bool // by device
	out    *bufio.Writer
}

// decide is a program in one of several modes.
func decide(mode string) {
	p := &program{out: bufio.NewWriter(os.Stdout)}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if n == 0 {
			if mode == "mute" {
				time.Sleep(time.Hour)
			}
			if mode == "old" {
				p.say(`{"hello":0}`)
				continue
			}
			p.say(`{"hello":1,"past":%v}`, mode == "past")
			continue
		}
		var m heard
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		p.hear(&m)
		if mode == "page" { // answers as the page does, and shows what it is told
			fmt.Fprint(os.Stderr, string(line))
			switch m.Now {
			case 0:
				p.say(`{"decision":1,"plan":[{"start":0}],"wake":600}`)
			case 60:
				p.say(`{"decision":2,"plan":[{"all":[{"stop":0,"for":1},{"start":1}]}]}`)
			default:
				return
			}
		}
		p.answer(mode, &m)
	}
}

func (p *program) say(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
	p.out.Flush()
}

// hear takes a message in.
func (p *program) hear(m *heard) {
	if m.First {
		p.jobs, p.usable = map[int]*known{}, map[int]bool{}
	}
	for _, n := range m.Nodes {
		for _, g := range n.GPUs {
			for d := g.Device; d < g.Device+g.Count; d++ {
				p.usable[d] = !n.Unusable && !slices.Contains(n.Broken, d)
			}
		}
	}
	for _, j := range m.Jobs {
		if j.Spec == nil {
			j.Spec = p.jobs[j.Job].Spec
		}
		p.jobs[j.Job] = j
		if j.Phase == "done" || j.Phase == "failed" || j.Phase == "cancelled" {
			delete(p.jobs, j.Job)
		}
	}
}

// inOrder lists the jobs by number.
func (p *program) inOrder() []*known {
	var out []*known
	for _, j := range p.jobs {
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *known) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

// answer answers a message.
func (p *program) answer(mode string, m *heard) {
	switch mode {
	case "dies": // after each answer
		p.srtf(m)
		fmt.Fprintln(os.Stderr, "enough")
		os.Exit(7)
	case "hangs":
		time.Sleep(time.Hour)
	case "nonsense":
		p.say("starting job 3")
	case "unknown":
		p.say(`{"decision":%d,"plan":[{"start":0,"gpus":3}]}`, m.Decision)
	case "other":
		p.say(`{"decision":%d,"plan":[]}`, m.Decision+1)
	case "twice": // starts what runs
		p.say(`{"decision":%d,"plan":[{"start":0},{"start":0}]}`, m.Decision)
	case "stranger":
		p.say(`{"decision":%d,"plan":[{"stop":77}]}`, m.Decision)
	case "sleeper":
		p.say(`{"decision":%d,"plan":[],"wake":%g}`, m.Decision, m.Now)
	case "last": // starts jobs on the last devices, and moves them to the first
		p.last(m)
	case "notes":
		p.notes(m)
	case "past": // tells how many jobs its first message says have ended
		if m.First {
			over := 0
			for _, j := range m.Jobs {
				if j.Phase == "done" {
					over++
				}
			}
			fmt.Fprintf(os.Stderr, "at %g s %d have ended\n", m.Now, over)
		}
		p.srtf(m)
	case "srtf":
		p.srtf(m)
	}
}

// srtf is shortest remaining time first, as examples/policy/srtf.py has it.
func (p *program) srtf(m *heard) {
	type entry struct {
		j     *known
		stays bool
		end   float64
	}
	room := m.Total
	var all []entry
	for _, j := range p.inOrder() {
		switch {
		case j.Astray:
			for i, d := range j.Devices {
				part := 1.0
				if j.Parts != nil {
					part = j.Parts[i]
				}
				if p.usable[d] {
					room -= part
				}
			}
		case j.Phase == "waiting" && !j.Never || j.Held > 0:
			e := entry{j: j, end: 1e18}
			e.stays = j.Held > 0 && (j.Spec.Stop == "never" || j.Spec.Stop == "restart" || j.Unsaved && (j.NextSave == nil || *j.NextSave > m.Now))
			if j.Estimate != nil {
				e.end = m.Now + max(0, *j.Estimate-j.Progress) + j.StartTakes
			}
			if j.End != nil {
				e.end = max(m.Now, *j.End)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		if a.stays != b.stays {
			if a.stays {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.end, b.end)
	})
	var stops, starts []int
	for _, e := range all {
		size := e.j.Spec.GPUs
		if e.j.Held > 0 {
			size = e.j.Held
		}
		switch fits := size <= room; {
		case fits && e.j.Held == 0:
			starts = append(starts, e.j.Job)
			room -= size
		case fits:
			room -= size
		case e.j.Held > 0:
			stops = append(stops, e.j.Job)
		}
	}
	slices.Sort(stops)
	acts := []string{}
	for _, id := range stops {
		acts = append(acts, fmt.Sprintf(`{"stop":%d,"for":%d}`, id, starts[0]))
	}
	for _, id := range starts {
		acts = append(acts, fmt.Sprintf(`{"start":%d}`, id))
	}
	p.say(`{"decision":%d,"plan":[%s]}`, m.Decision, strings.Join(acts, ","))
}

// last starts each job on the last devices that are free, moves job 0 to the first ones at
// 50 s, and plans what does not fit as a whole.
func (p *program) last(m *heard) {
	taken := map[int]bool{}
	for _, j := range p.jobs {
		for _, d := range j.Devices {
			taken[d] = true
		}
	}
	acts := []string{}
	for _, j := range p.inOrder() {
		if j.Phase != "waiting" {
			continue
		}
		var on []int
		for d := len(p.usable) - 1; d >= 0 && len(on) < int(j.Spec.GPUs); d-- {
			if !taken[d] {
				on = append(on, d)
			}
		}
		if len(on) < int(j.Spec.GPUs) {
			if a := p.jobs[0]; a != nil && a.Held > 0 {
				acts = append(acts, fmt.Sprintf(`{"all":[{"stop":0},{"start":%d}]}`, j.Job))
			}
			acts = append(acts, fmt.Sprintf(`{"wait":%d,"why":"there are \"too few\" devices"}`, j.Job))
			continue
		}
		for _, d := range on {
			taken[d] = true
		}
		text, _ := json.Marshal(on) // cannot fail: numbers
		acts = append(acts, fmt.Sprintf(`{"start":%d,"devices":%s}`, j.Job, text))
	}
	if m.Now == 50 {
		acts = append(acts, `{"move":0,"devices":[0,1]}`)
	}
	wake := ""
	if m.Now < 50 {
		wake = `,"wake":50`
	}
	p.say(`{"decision":%d,"plan":[%s]%s}`, m.Decision, strings.Join(acts, ","), wake)
}

// notes counts on each job how often it was decided about, and ends after each answer.
func (p *program) notes(m *heard) {
	acts := []string{}
	for _, j := range p.inOrder() {
		acts = append(acts, fmt.Sprintf(`{"remember":%d,"note":"%s|"}`, j.Job, j.Note))
		if j.Phase == "waiting" && len(j.Note) >= 2 {
			acts = append(acts, fmt.Sprintf(`{"start":%d}`, j.Job))
		}
	}
	wake := ""
	if len(acts) > 0 {
		wake = fmt.Sprintf(`,"wake":%g`, m.Now+10)
	}
	p.say(`{"decision":%d,"plan":[%s]%s}`, m.Decision, strings.Join(acts, ","), wake)
	os.Exit(0)
}
