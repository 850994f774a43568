package history

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestHistories plays every file of testdata and compares what happens with what
// stands there. Run with -rewrite after a change, and read the difference.
func TestHistories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				t.Fatalf("%s: %s is not known, write run", d.Pos, d.Cmd)
			}
			var args []Arg
			for _, a := range d.CmdArgs {
				args = append(args, Arg{a.Key, a.Vals})
			}
			h, err := Parse(args, d.Input)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			lines, err := h.Simulate()
			if err != nil {
				return "error: " + err.Error()
			}
			again, err := h.Simulate()
			if err != nil || strings.Join(again, "\n") != strings.Join(lines, "\n") {
				t.Errorf("%s: played twice, it differs", d.Pos)
			}
			return strings.Join(lines, "\n") + "\n"
		})
	})
}

func TestParseErrors(t *testing.T) {
	good := []Arg{{"policy", []string{"fifo"}}, {"cluster", []string{"1x4"}}}
	cases := []struct {
		args  []Arg
		input string
		want  string
	}{
		{nil, "", "policy and cluster must be given"},
		{[]Arg{{"speed", []string{"1"}}}, "", "speed=1: is not known"},
		{[]Arg{{"policy", nil}}, "", "policy=: has no value"},
		{[]Arg{{"types", []string{"V100"}}}, "", "types=V100: write type:GPUs or type:GPUs:speed"},
		{[]Arg{{"types", []string{"V100:2:x"}}}, "", "types=V100:2:x: write type:GPUs"},
		{[]Arg{{"set", []string{"mode"}}}, "", "set=mode: write name=value"},
		{[]Arg{{"cluster", []string{"lots"}}}, "", "cluster=lots:"},
		{[]Arg{{"estimate", []string{"history"}}}, "", "estimate=history: write oracle, none or user"},
		{[]Arg{{"start", []string{"soon"}}}, "", "start=soon:"},
		{good, "a 0 1 5", "line 1 (a 0 1 5): a table of jobs begins with a line that names its columns"},
		{good, "job at gpus\na 0", "line 2 (a 0): has 2 entries, the table has 3 columns"},
		{good, "job at size\na 0 1", "line 2 (a 0 1): size 1: is no column that is known"},
		{good, "job at gpus\na 0 two", "gpus two: write 4, 0.5, or tasks x GPUs of each"},
		{good, "job gpus\na 1.5", "more than one must be a whole number"},
		{good, "job at\na 5\nb 4", "line 3 (b 4): is submitted before the job above it"},
		{good, "job stop\na later", "stop later: write checkpoint, freeze, restart, never or last-save"},
		{good, "tenant a share=3", "share=3: write guarantee, limit or weight"},
		{good, "at 5 down", "write at, a time, what happens and to whom"},
		{good, "at 5 explode n0", "explode is nothing that happens"},
		{good, "at 5 break n0", "has 4 words, want 5"},
	}
	for _, c := range cases {
		if _, err := Parse(c.args, c.input); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %q: %v, want %s", c.args, c.input, err, c.want)
		}
	}
	for input, want := range map[string]string{
		"at 5 down n1":      "at 5 down n1: there is nobody of that name",
		"at 5 cancel a":     "at 5 cancel a: there is nobody of that name",
		"at 5 break n0 4":   "node n0 has no GPU 4",
		"at 5 add lots":     "lots",
		"at 5 speed a 0.25": "nobody of that name",
	} {
		h, err := Parse(good, input)
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if _, err := h.Simulate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", input, err, want)
		}
	}
}
