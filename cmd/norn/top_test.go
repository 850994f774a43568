package main

import (
	"fmt"
	"github.com/norn-scheduler/norn/internal/grid"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// viewOf is a view of a busy machine.
func viewOf(jobs []api.Job) *topView {
	v := &topView{now: noon}
	v.take(topNews{status: sampleStatus(), node: sampleNode(), jobs: jobs})
	return v
}

// text is a frame as it is seen; at the end of each line stands |, so that its
// width is seen, too, and before it how the line stands out.
func frameText(lines []topLine, width int) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s%s|%s\n", l.text, strings.Repeat(" ", max(0, width-grid.Cells(l.text))), []string{"", "strong", "faint", "alarm", "picked"}[l.look])
	}
	return b.String()
}

// manyJobs are so many that wait, beside those of sampleJobs.
func manyJobs(n int) []api.Job {
	list := sampleJobs()[:6]
	for i := range n {
		list = append(list, api.Job{ID: fmt.Sprint(100 + i), Name: "sweep", User: "bob", State: api.Waiting, GPUs: api.Fixed(2), Wait: api.Seconds(60 * i), Reason: "needs 2 GPUs; 1 is free", Command: []string{"true"}})
	}
	return list
}

// TestTopFrames draws a busy machine at two sizes, and other states of the screen.
func TestTopFrames(t *testing.T) {
	busy := viewOf(manyJobs(50))
	busy.press(keyDown, 10)
	golden(t, "top-80x24.txt", frameText(busy.frame(80, 24), 80))
	golden(t, "top-140x50.txt", frameText(busy.frame(140, 50), 140))

	var b strings.Builder
	show := func(what string, v *topView) {
		fmt.Fprintf(&b, "%s\n%s\n", what, frameText(v.frame(80, 24), 80))
	}
	empty := &topView{now: noon}
	show("before any news", empty)
	empty.take(topNews{status: api.Status{Policy: "fifo", Up: noon, Now: noon}, node: api.Node{Name: "laptop", Health: "up", CPUs: 8, Memory: 16 << 30, Devices: []api.Device{{Name: "slot0", Type: "slot"}, {Name: "slot1", Type: "slot"}}}})
	show("an idle machine with declared devices", empty)
	busy.take(topNews{err: fmt.Errorf("no norn is running here (socket /run/norn.sock): start it with norn up")})
	show("the daemon is away", busy)
	busy.press('c', 10)
	show("it asks", busy)
	busy.press('n', 10)
	busy.press('w', 10)
	busy.show("5", false, whyLines(sampleWhy(), noon, 80), nil)
	show("why", busy)
	busy.press(keyEscape, 10)
	busy.press('l', 10)
	busy.show("5", true, outputLines(strings.Repeat("\x1b[31mstep\x1b[0m\n", 60)+"10%\r20%\r30%\r\nlast\tline\n"), nil)
	show("output", busy)
	busy.press(keyEscape, 10)
	busy.press('?', 10)
	show("help", busy)
	ascii := viewOf(sampleJobs())
	ascii.ascii = true
	ascii.node.Health, ascii.node.Note = "drained", "maintenance"
	ascii.status.Trouble = append(ascii.status.Trouble, "the disk is nearly full", "job 2 failed at once 3 times")
	show("without UTF-8, drained, with many troubles", ascii)
	golden(t, "top-states.txt", b.String())
}

// TestTopSizes: at any size a frame has exactly the lines and never more cells
// than there are, and the selected job is on it.
func TestTopSizes(t *testing.T) {
	for _, jobs := range [][]api.Job{nil, sampleJobs(), manyJobs(300), manyJobs(300)[3:]} {
		v := viewOf(jobs)
		for _, step := range []key{keyHome, keyPageDown, keyEnd} {
			v.press(step, 10)
			for width := 1; width <= 200; width += 13 {
				for height := 1; height <= 60; height++ {
					lines := v.frame(width, height)
					if len(lines) != height {
						t.Fatalf("%d lines at %dx%d", len(lines), width, height)
					}
					for _, l := range lines {
						if grid.Cells(l.text) > width {
							t.Fatalf("%q at %dx%d", l.text, width, height)
						}
					}
					seen := slices.ContainsFunc(lines, func(l topLine) bool { return l.look == picked })
					if height >= 20 && width >= 14 && len(jobs) > 0 && !seen {
						t.Fatalf("the selected job %s is not on the screen of %dx%d:\n%s", v.chosen, width, height, frameText(lines, width))
					}
				}
			}
		}
	}
}

// TestTopKeys: what keys do.
func TestTopKeys(t *testing.T) {
	v := viewOf(sampleJobs())
	press := func(keys ...key) (a topAction) {
		for _, k := range keys {
			a = v.press(k, 10)
		}
		return a
	}
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("first", v.chosen, "3")
	press(keyDown, 'j')
	check("two down", v.chosen, "6")
	press(keyUp, 'k', keyUp, keyUp)
	check("up to the top", v.chosen, "3")
	press('G')
	check("last", v.chosen, "9_2")
	check("release", press('r'), topAction{"release", "9_2"})
	check("hold", press('g', 'h'), topAction{"hold", "3"})
	check("cancel asks", press('c'), topAction{})
	check("cancel", press('y'), topAction{"cancel", "3"})
	check("cancel asks", press('c'), topAction{})
	check("no cancel", press('q'), topAction{})
	check("what became of it", v.note, "job 3 is left as it is")
	check("why", press('w'), topAction{topWhy, "3"})
	v.show("3", false, slices.Repeat([]string{"x"}, 30), nil)
	check("keys scroll", press(keyDown, keyDown), topAction{})
	check("from", v.panel.from, 2)
	press(keyEnd, keyDown)
	check("from", v.panel.from, 20)
	check("no verb in a panel", press('c'), topAction{})
	check("q closes the panel", press('q'), topAction{})
	check("and then quits", press('q').do, topQuit)
	check("logs", press('l'), topAction{topLogs, "3"})
	v.show("3", true, slices.Repeat([]string{"x"}, 30), nil)
	check("at the end", v.panel.end, true)
	press(keyUp)
	check("from", v.panel.from, 19)
	check("not at the end", v.panel.end, false)
	v.show("5", true, []string{"of another job"}, nil)
	check("lines", len(v.panel.lines), 30)
	check("ctrl-c", press(keyInterrupt).do, topQuit)
	press(keyEscape)

	v.done(topAction{"cancel", "3"}, nil)
	check("done", v.note, "cancelled job 3")
	v.done(topAction{"hold", "3"}, fmt.Errorf("job 3 runs"))
	check("refused", v.note, "job 3 runs")

	press('g', keyDown, 'c') // a job that goes takes the question with it
	v.take(topNews{status: sampleStatus(), node: sampleNode(), jobs: sampleJobs()[:1]})
	check("another job", v.chosen+v.asking, "3")
	v.take(topNews{status: sampleStatus(), node: sampleNode()})
	check("no job", v.chosen, "")
	check("nothing to cancel", press('c'), topAction{})
	check("said so", v.note, "there is no job")
	check("nothing to select", press(keyDown), topAction{})
}

// TestReadKeys: what terminals send.
func TestReadKeys(t *testing.T) {
	for in, want := range map[string][]key{
		"q": {'q'}, "jk": {'j', 'k'}, "\x1b[A\x1b[B": {keyUp, keyDown}, "\x1bOA": {keyUp}, "\x1b": {keyEscape}, "\x1b\x1b": {keyEscape, keyEscape}, "\x1b[5~q": {keyPageUp, 'q'},
		"\x1b[1;5A": nil, "\x1b[": nil, "\x03": {keyInterrupt}, "\r": {keyEnter}, "é": {'é'}, "\xff": nil, "\x7f": nil, "\x0c": {keyRedraw},
	} {
		if got := readKeys([]byte(in)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// TestTopOnce prints one picture where there is no terminal.
func TestTopOnce(t *testing.T) {
	for _, args := range [][]string{{"top"}, {"top", "--once"}} {
		out, errOut := liveWorks(t, busy(), args...)
		if errOut != "" || strings.ContainsRune(out, '\x1b') {
			t.Errorf("%q", errOut)
		}
		golden(t, "top-once.txt", out)
	}
	f := busy()
	f.refuse["status"] = api.Refuse(api.NoToken, "a token is needed")
	if _, errOut, code := liveIn(t.Context(), shellOf(f), "top"); code != exitFailed || errOut != "norn: a token is needed\n" {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// TestShares: room is divided so that neither table starves.
func TestShares(t *testing.T) {
	for _, c := range [][5]int{{20, 5, 5, 5, 5}, {10, 20, 3, 7, 3}, {10, 2, 30, 2, 8}, {9, 30, 30, 6, 3}, {0, 3, 3, 0, 0}, {-3, 1, 1, 0, 0}, {1, 5, 5, 1, 0}} {
		if a, b := shares(c[0], c[1], c[2]); a != c[3] || b != c[4] {
			t.Errorf("%d lines for %d and %d: %d and %d, want %d and %d", c[0], c[1], c[2], a, b, c[3], c[4])
		}
	}
}
