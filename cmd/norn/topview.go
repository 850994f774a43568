package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/grid"
)

// topView is all that norn top shows, and which part of it. Keys and news change
// it; frame draws it.
type topView struct {
	now    time.Time
	status api.Status
	node   api.Node
	nodes  []api.Node // of a cluster, those with trouble first
	from   int        // the first of them that is shown
	rows   int        // how many are shown
	width  int        // of the last picture
	run    []api.Job  // that hold devices, or are about to
	queue  []api.Job
	chosen string // number of the selected job
	asking string // cancel: it waits for a yes
	note   string // what became of the last key
	broken string // why there is no news
	ready  bool   // there was news once
	panel  *topPanel
	ascii  bool
}

// topPanel lies over the tables.
type topPanel struct {
	job   string // empty: the help
	logs  bool
	title string
	lines []string
	from  int // first line that is shown
	end   bool
}

// topAction is what a key asks of the world around the view.
type topAction struct {
	do  string // a verb for a job, or show-why, show-logs, quit
	job string
}

const (
	topQuit = "quit"
	topWhy  = "show-why"
	topLogs = "show-logs"
)

// topNews is what was asked of Norn at one moment.
type topNews struct {
	status api.Status
	node   api.Node
	nodes  []api.Node // of a cluster
	jobs   []api.Job
	err    error
}

// take shows what is new.
func (v *topView) take(n topNews) {
	if n.err != nil {
		v.broken = n.err.Error()
		return
	}
	v.status, v.node, v.broken, v.ready = n.status, n.node, "", true
	v.nodes = slices.Clone(n.nodes)
	slices.SortStableFunc(v.nodes, func(a, b api.Node) int { return rankOfState(&a) - rankOfState(&b) })
	v.run, v.queue = nil, nil
	for _, j := range n.jobs {
		switch j.State {
		case api.Running, api.Stopping, api.Assigned:
			v.run = append(v.run, j)
		case api.Waiting, api.Held:
			v.queue = append(v.queue, j)
		}
	}
	if v.index() < 0 {
		v.chosen, v.asking = "", ""
		if all := v.all(); len(all) > 0 {
			v.chosen = all[0].ID
		}
	}
}

// all are the jobs in the order in which they are shown.
func (v *topView) all() []api.Job { return slices.Concat(v.run, v.queue) }

// index is where the selected job stands among all, or -1.
func (v *topView) index() int {
	return slices.IndexFunc(v.all(), func(j api.Job) bool { return j.ID == v.chosen })
}

// press is what a key does; page is how many lines a panel shows.
func (v *topView) press(k key, page int) topAction {
	v.note = ""
	switch {
	case k == keyInterrupt:
		return topAction{do: topQuit}
	case v.asking != "":
		verb := v.asking
		if v.asking = ""; k == 'y' || k == 'Y' {
			return topAction{verb, v.chosen}
		}
		v.note = "job " + v.chosen + " is left as it is"
		return topAction{}
	case v.panel != nil:
		v.scroll(k, page)
		return topAction{}
	}
	return v.command(k)
}

// command is what a key does to the tables.
func (v *topView) command(k key) topAction {
	switch k {
	case 'q', 'Q':
		return topAction{do: topQuit}
	case keyUp, 'k':
		v.move(-1)
	case keyDown, 'j':
		v.move(1)
	case keyPageUp:
		v.move(-10)
	case keyPageDown:
		v.move(10)
	case keyHome, 'g':
		v.move(-len(v.all()))
	case keyEnd, 'G':
		v.move(len(v.all()))
	case '[':
		v.from -= v.rows
	case ']':
		v.from += v.rows
	case 'n':
		if len(v.nodes) > 0 {
			v.panel = &topPanel{title: "Nodes", lines: nodeTable(v.nodes).Lines(v.width)}
		}
	case '?':
		v.panel = &topPanel{title: "Keys", lines: topHelp}
	case 'c', 'h', 'r', 'w', keyEnter, 'l':
		return v.onJob(k)
	}
	return topAction{}
}

func (v *topView) onJob(k key) topAction {
	if v.chosen == "" {
		v.note = "there is no job"
		return topAction{}
	}
	switch k {
	case 'c':
		v.asking = cancelDeed.verb
		return topAction{}
	case 'h':
		return topAction{holdDeed.verb, v.chosen}
	case 'r':
		return topAction{releaseDeed.verb, v.chosen}
	case 'l':
		v.panel = &topPanel{job: v.chosen, logs: true, title: "Output of job " + v.chosen, end: true}
		return topAction{topLogs, v.chosen}
	}
	v.panel = &topPanel{job: v.chosen, title: "Why job " + v.chosen}
	return topAction{topWhy, v.chosen}
}

// move selects another job.
func (v *topView) move(by int) {
	all := v.all()
	if len(all) == 0 {
		return
	}
	v.chosen = all[min(max(0, v.index()+by), len(all)-1)].ID
}

// scroll is what a key does to a panel.
func (v *topView) scroll(k key, page int) {
	p := v.panel
	bottom := max(0, len(p.lines)-page)
	if p.end {
		p.from = bottom
	}
	switch k {
	case 'q', 'Q', keyEscape, keyEnter, 'w', 'l', '?':
		v.panel = nil
		return
	case keyUp, 'k':
		p.from--
	case keyDown, 'j':
		p.from++
	case keyPageUp, 'b':
		p.from -= page
	case keyPageDown, ' ':
		p.from += page
	case keyHome, 'g':
		p.from = 0
	case keyEnd, 'G':
		p.from = bottom
	}
	p.from = min(max(0, p.from), bottom)
	p.end = p.logs && p.from == bottom
}

// show fills the panel of a job, if that is still open.
func (v *topView) show(job string, logs bool, lines []string, err error) {
	if v.panel == nil || v.panel.job != job || v.panel.logs != logs {
		return
	}
	if err != nil {
		lines = []string{grid.Clean(err.Error())}
	}
	v.panel.lines = lines
}

// done tells what became of an action.
func (v *topView) done(a topAction, err error) {
	past := map[string]string{cancelDeed.verb: cancelDeed.past, holdDeed.verb: holdDeed.past, releaseDeed.verb: releaseDeed.past}
	if v.note = fmt.Sprintf("%s job %s", past[a.do], a.job); err != nil {
		v.note = err.Error()
	}
}

// topHelp is shown on ?.
var topHelp = []string{
	"up, down, k, j        select a job; page up, page down, g, G go further",
	"w, enter              why it waits, what would let it start, and when",
	"l                     its output",
	"c                     cancel it (asks)",
	"[, ], n               in a cluster: pages of nodes, all nodes",
	"h, r                  hold it, release it",
	"esc, q                back from here",
	"q, ctrl-c             quit",
	"",
	"A bar with ~ behind it is the estimate; without, what the job itself reports.",
}

var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-Z\\\\-_])")

// outputLines are the lines that a job has written as they would stand on a
// terminal, without colours: of a line that was written over, the last state.
func outputLines(text string) []string {
	text = strings.TrimSuffix(escapes.ReplaceAllString(text, ""), "\n")
	if text == "" {
		return []string{"it has written nothing yet"}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if at := strings.LastIndexByte(line, '\r'); at >= 0 {
			line = line[at+1:]
		}
		lines[i] = grid.Clean(strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}
