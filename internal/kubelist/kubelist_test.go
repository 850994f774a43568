package kubelist_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/kubelist"
)

// each lists the objects of a text by kind, group and name.
func each(text string) (out []string, err error) {
	err = kubelist.Each(strings.NewReader(text), func(o kubelist.Object) error {
		var named struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(o.JSON, &named); err != nil {
			return err
		}
		out = append(out, fmt.Sprintf("%s.%s %s", o.Kind, o.Group(), named.Metadata.Name))
		return nil
	})
	return out, err
}

// TestEach finds the objects of all shapes that kubectl writes, and what the head of each
// tells of the first.
func TestEach(t *testing.T) {
	const a, b = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, `{"apiVersion":"x.y/v2","kind":"Z","metadata":{"name":"b"}}`
	for _, c := range []struct{ text, want, head string }{
		{a, "Pod. a", "Pod"},
		{a + "\n" + b, "Pod. a;Z.x.y b", "Pod"},
		{`{"apiVersion":"v1","items":[` + a + "," + b + `],"kind":"List","metadata":{}}`, "Pod. a;Z.x.y b", "Pod"},
		{`{"kind":"ZList","apiVersion":"x.y/v2","items":[{"metadata":{"name":"c"}}]}`, "Z.x.y c", "Z"},
		{`{"apiVersion":"v1","items":[],"kind":"List"}`, "", ""},
		{"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\napiVersion: x.y/v2\nkind: Z\nmetadata: {name: b}\n", "Pod. a;Z.x.y b", "Pod"},
		{"apiVersion: v1\nitems:\n- apiVersion: x.y/v2\n  kind: Z\n  metadata:\n    name: b\n    annotations:\n      t: |\n        kind: Pod\nkind: List\n", "Z.x.y b", "Z"},
	} {
		got, err := each(c.text)
		if strings.Join(got, ";") != c.want || err != nil {
			t.Errorf("%s:\n%v, %v; want %s", c.text, got, err, c.want)
		}
		head, ok := kubelist.Head([]byte(c.text))
		if head.Kind != c.head || !ok {
			t.Errorf("%s: the head tells of %q, %v; want %s", c.text, head.Kind, ok, c.head)
		}
	}
	for _, text := range []string{"", "a,b\n1,2\n", `{"norn":"trace"}`, "nodes: [{count: 1}]\n"} {
		if head, ok := kubelist.Head([]byte(text)); ok {
			t.Errorf("%q is taken for %+v", text, head)
		}
	}
}

// TestErrors says what is wrong with a file, and hands on what visit fails with.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		" \n": "is empty", `{"items":[{}`: "unexpected EOF", `{"items":[{},]}`: "invalid character", `{"items":3}`: "expected [",
		`{"kind":"PodList"}`: "a PodList without items", "a: [": "line 1", "- 1\n": "", `{"kind":"Pod"} x`: "invalid character",
	} {
		if _, err := each(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := each(`{"items":[{"a":`); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that breaks off: %v", err)
	}
	stop := errors.New("stop")
	if err := kubelist.Each(strings.NewReader(`{"items":[{}]}`), func(kubelist.Object) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestQuantity reads amounts as text and as numbers.
func TestQuantity(t *testing.T) {
	var q map[string]kubelist.Quantity
	if err := json.Unmarshal([]byte(`{"a":"500m","b":4,"c":1.5}`), &q); err != nil || fmt.Sprint(q) != "map[a:500m b:4 c:1.5]" {
		t.Error(q, err)
	}
	if err := json.Unmarshal([]byte(`{"a":[]}`), &q); err == nil {
		t.Error("a list is taken for an amount")
	}
	_, err := kubelist.Amounts(q, func(text string) (float64, error) { return 0, errors.New("no " + text) })
	if err == nil || err.Error() != "a: no 500m" {
		t.Error(err)
	}
}

// FuzzEach reads anything: nothing panics, and what the objects are is JSON.
func FuzzEach(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","items":[{"kind":"Pod"}],"kind":"List"}`))
	f.Add([]byte("apiVersion: v1\nitems:\n- kind: Pod\n  spec: {a: [1, x]}\n---\nb: |\n  c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			t.Skip("too long to be of use")
		}
		kubelist.Head(text)
		_ = kubelist.Each(strings.NewReader(string(text)), func(o kubelist.Object) error {
			if !json.Valid(o.JSON) {
				t.Fatalf("%q is no JSON", o.JSON)
			}
			return nil
		})
	})
}
