package job_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

const wholeShape = `
table users 1000001x9*26
table 63001x64;; layers deep 247x512x256x128
layers 377x1; optimizer adam
sparse
params 247
kept 2223; once 466
workspace 80MiB; context 500M
`

// Every statement is read, and what is written is read as the same.
func TestParseShape(t *testing.T) {
	want := &job.Shape{
		Tables:    []job.Table{{"users", 1_000_001, 9, 26}, {"", 63_001, 64, 1}},
		Layers:    []job.Layers{{"deep", []int64{247, 512, 256, 128}}, {"", []int64{377, 1}}},
		Optimizer: job.Adam, Sparse: true, Params: 247, Kept: 2223, Once: 466, Workspace: 80 * unit.MiB, Context: 500 * unit.MiB,
	}
	got, err := job.ParseShape(wholeShape)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	text := "table users 1000001x9*26; table 63001x64; layers deep 247x512x256x128; layers 377x1; optimizer adam; sparse; params 247; kept 2223; once 466; workspace 83886080; context 524288000"
	if got.String() != text {
		t.Errorf("%s\nwant\n%s", got, text)
	}
	for o, states := range map[string]int{"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2} {
		s, err := job.ParseShape("layers 2x2; optimizer " + o)
		if err != nil || s.Optimizer.String() != o || s.Optimizer.States() != states {
			t.Errorf("%s: %+v, %v", o, s, err)
		}
	}
}

// Errors name the part of the shape that is wrong.
func TestParseShapeErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "neither tables nor layers"},
		{"optimizer adam", "neither tables nor layers"},
		{"layers 2x2", "no optimizer: write optimizer sgd, momentum, adagrad, adam"},
		{"layers deep 13x0x1; optimizer adam", `layers deep: "13x0x1": write the widths`},
		{"layers 2x2; layers 13; optimizer adam", `layers 2: "13": write the widths`},
		{"layers 13x-2; optimizer adam", `layers 1: "13x-2"`},
		{"table users 10; optimizer adam", `table users: "10": write rows x numbers`},
		{"table users 10x2x3", `table users: "10x2x3"`},
		{"table users 10x2*", `table users: "10x2*"`},
		{"table users 10x2*2x2", `table users: "10x2*2x2"`},
		{"table 9999999999999999x2", `table 1: "9999999999999999x2": `},
		{"table a b 1x2", `table 1: "a b 1x2": write a name`},
		{"table us,ers 1x2", `table 1: "us,ers 1x2": write a name of letters, digits`},
		{"table", `table 1: "": write a name`},
		{"table a 1000000000x1000000; table b 1000000000x1000000; optimizer sgd", "table b: with it the model has more than 2^50 numbers"},
		{"layers big 1000000000x1000000000; optimizer sgd", "layers big: with it the model has more than 2^50 numbers"},
		{"layers 2x2; optimizer lion", `optimizer: "lion": write sgd, momentum, adagrad, adam`},
		{"layers 2x2; optimizer", "optimizer: write one value behind it"},
		{"layers 2x2; optimizer sgd; optimizer adam", "optimizer is there twice"},
		{"layers 2x2; kept many", `kept: "many" is not a whole number`},
		{"layers 2x2; workspace lots", `workspace: "lots" is not an amount of memory`},
		{"layers 2x2; sparse yes", `"sparse": write table, layers`},
		{"conv 3x3", `"conv": write table, layers`},
		{strings.Repeat("layers 2x2;", 257), "more than 256 statements layers"},
	} {
		s, err := job.ParseShape(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %+v, %v; want %q", c.text, s, err, c.want)
		}
	}
}

// Any text is a shape or an error, and a shape is written as it is read.
func FuzzShape(f *testing.F) {
	f.Add(wholeShape)
	f.Add("layers 2x2; optimizer sgd; context 1E")
	f.Add("table a 1x1*1;table a 1125899906842624x1;optimizer momentum")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := job.ParseShape(text)
		if err != nil {
			return
		}
		again, err := job.ParseShape(s.String())
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%q is written as %q, and that is read as %+v, %v", text, s, again, err)
		}
	})
}
