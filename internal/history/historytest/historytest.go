// Package historytest helps worlds whose clock is not exact to play the histories of package
// history: it reads them all, shortens their times, and compares what came of them.
package historytest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/history"
)

// Story is a history as it stands in a file.
type Story struct {
	At       string // where it stands
	Play     *history.History
	Expected []string // what the simulator tells
}

// Stories are the histories of a folder.
func Stories(t *testing.T, dir string) []Story {
	t.Helper()
	var out []Story
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var args []history.Arg
			for _, a := range d.CmdArgs {
				args = append(args, history.Arg{Name: a.Key, Values: a.Vals})
			}
			h, err := history.Parse(args, d.Input)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			_, line, _ := strings.Cut(d.Pos, ":")
			out = append(out, Story{
				At: filepath.Base(path) + ":" + strings.TrimSuffix(line, ":"), Play: h, Expected: strings.Split(strings.TrimSpace(d.Expected), "\n"),
			})
			return d.Expected
		})
	})
	return out
}

// Play plays the stories that a world can play, each with shorter seconds first and then with
// longer ones, as a loaded machine needs them, and compares what came of them. notHere says
// why a world cannot play one; empty: it can. At least so many must be played, so that such a
// test cannot come to nothing unnoticed. At most atOnce of them are played at a time.
func Play(t *testing.T, stories []Story, least, atOnce int, seconds []time.Duration, notHere func(*history.History) string, play func(t *testing.T, s *Story, second time.Duration) []string) {
	played := 0
	room := make(chan struct{}, atOnce)
	for i := range stories {
		s := &stories[i]
		if why := notHere(s.Play); why != "" {
			t.Logf("%s is not played: %s", s.At, why)
			continue
		}
		played++
		t.Run(s.At, func(t *testing.T) {
			t.Parallel()
			room <- struct{}{}
			defer func() { <-room }()
			for _, second := range seconds {
				diff := Compare(s.Expected, play(t, s, second))
				if diff == "" {
					return
				}
				t.Logf("with seconds of %v: %s", second, diff)
			}
			t.Errorf("what happens here is not what the history tells")
		})
	}
	if played < least {
		t.Errorf("%d histories can be played, there should be at least %d", played, least)
	}
}

// Leave counts the jobs of a story that come to an end.
func (s *Story) Leave() (n int) {
	for _, line := range s.Expected {
		if w := strings.Fields(line); w[1] == "end" || w[1] == "cancel" {
			n++
		}
	}
	return n
}

// Ends is when the last thing of a story happens, in its seconds.
func (s *Story) Ends() float64 {
	at, _, _ := strings.Cut(s.Expected[len(s.Expected)-1], " ")
	seconds, _ := strconv.ParseFloat(at, 64) // 0 where nothing is expected
	return seconds
}

// Scaled is a policy whose times are those of a world with shorter seconds.
func Scaled(c experiment.Choice, second time.Duration) (experiment.Choice, error) {
	out := experiment.Choice{Policy: c.Policy}
	for _, s := range c.Settings {
		switch s.Name {
		case "round", "limits", "reset", "term", "quantum": // a span; GPU-seconds
			d, err := unit.ParseSeconds(s.Value)
			if err != nil {
				return out, err
			}
			s.Value = strconv.FormatFloat(d.Seconds()*second.Seconds(), 'f', -1, 64)
		case "mode", "place", "priority", "alpha", "parts", "window", "replan", "trade", "lambda", "k":
		default:
			return out, fmt.Errorf("setting %s of policy %s: say here whether it is a time", s.Name, c.Policy)
		}
		out.Settings = append(out.Settings, s)
	}
	return out, nil
}

// inexact is what a line tells that hangs on the clock: spans of work, the times
// that are promised; and who exactly did something.
var inexact = regexp.MustCompile(` (delay|kept)=\S+| of \S+ GPU-seconds|; expected to fit at \S+|, which is to start at \S+| by \S+$| is at \S+$`)

// plain is what lines tell that any world must tell alike, a slice for each line:
// without times, and without what hangs on what takes time and what does not.
//
//   - what was believed of run times is left out;
//   - leaving a device takes time on a machine, so that others are assigned it
//     first: that, and when it has been left, is left out;
//   - why a job waits that was stopped is told when it has left: left out, too;
//   - a reason that only promises another moment is told once;
//   - a machine notes that a run was cancelled, and takes time to end it.
func plain(lines []string) [][2]string {
	var out [][2]string
	stopped, why := map[string]bool{}, map[string]string{}
	for _, line := range lines {
		at, rest, _ := strings.Cut(line, " ")
		rest = inexact.ReplaceAllString(rest, "")
		if i := strings.Index(rest, "the attempt failed"); i >= 0 { // how is the simulator's secret
			rest = rest[:i+len("the attempt failed")]
		}
		words := strings.Fields(rest)
		who := strings.TrimSuffix(words[1], ":")
		switch words[0] {
		case "estimate", "gone", "assign", "memo", "progress":
			continue
		case "wait":
			if stopped[who] || why[who] == rest || strings.HasSuffix(rest, " cancelled it") {
				continue
			}
			why[who] = rest
		case "preempt":
			stopped[who] = true
		default:
			delete(stopped, who)
			delete(why, who)
		}
		out = append(out, [2]string{at, rest})
	}
	return out
}

// Compare says how what happened differs from what is expected; empty: in
// nothing. Events that are expected at one moment may come in any order.
func Compare(expected, happened []string) string {
	want, have := plain(expected), plain(happened)
	same := len(want) == len(have)
	for i := 0; same && i < len(want); {
		k := i
		for k < len(want) && want[k][0] == want[i][0] {
			k++
		}
		same = slices.Equal(texts(want[i:k], true), texts(have[i:k], true))
		i = k
	}
	if same {
		return ""
	}
	return fmt.Sprintf("expected\n\t%s\nhappened\n\t%s", strings.Join(texts(want, false), "\n\t"), strings.Join(happened, "\n\t"))
}

func texts(lines [][2]string, sorted bool) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l[1])
	}
	if sorted {
		slices.Sort(out)
	}
	return out
}
