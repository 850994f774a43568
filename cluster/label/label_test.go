package label

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestParseWhere: what is written in any way comes out in one form.
func TestParseWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"  ":                                     "",
		"zone=a":                                 "zone=a",
		" zone == a ":                            "zone=a",
		"zone in (a)":                            "zone=a",
		"zone in (b, a,b)":                       "zone in (a,b)",
		"zone not in (b,a)":                      "zone notin (a,b)",
		"zone notin (b)":                         "zone!=b",
		"zone in (a,b), gpu-mem > 40, !spot":     "!spot, gpu-mem>40, zone in (a,b)",
		"! spot":                                 "!spot",
		"x | b, a | x":                           "a, b | x",
		"x || y":                                 "x | y",
		`zone in ("",a)`:                         `zone in ("",a)`,
		`zone=""`:                                `zone=""`,
		"in in (in)":                             "in=in",
		"not":                                    "not",
		"notin notin (x,y)":                      "notin notin (x,y)",
		"a.b/c-d_e < -3":                         "a.b/c-d_e<-3",
		"cores<9223372036854775807":              "cores<9223372036854775807",
		"inside":                                 "inside",
		"node=" + strings.Repeat("n", 253):       "node=" + strings.Repeat("n", 253),
		"kubernetes.io/hostname in\t(n1,\n n2) ": "kubernetes.io/hostname in (n1,n2)",
	} {
		if w, err := ParseWhere(text); err != nil || w.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, w.String(), err, want)
		}
	}
}

// TestWhereErrors: an error says where the text goes wrong, and what should be there.
func TestWhereErrors(t *testing.T) {
	for text, want := range map[string]string{
		"zone in a":                     `"zone in a": at byte 9, "a": write values in parentheses, as in zone in (a,b)`,
		"zone in (a":                    `"zone in (a": it ends where it should have a comma or )`,
		"zone in ()":                    `at byte 10, ")": write a value of label zone, or "" for the empty one`,
		"zone not (a)":                  `at byte 10, "(a)": write in, as in zone not in (a,b)`,
		"zone=":                         `it ends where it should have a value of label zone, or "" for the empty one`,
		"zone=a,":                       "it ends where it should have the key of a label",
		"zone=a |":                      "it ends where it should have the label of another requirement",
		"| zone=a":                      `at byte 1, "| zone=a": write the key of a label`,
		"zone=a b=c":                    `at byte 8, "b=c": write a comma, | or the end`,
		"!spot=yes":                     `at byte 6, "=yes": write a comma, | or the end`,
		"mem > 4.5":                     `at byte 8, ".5": write a comma, | or the end`,
		"mem > much":                    `at byte 7, "much": write a whole number, with which label mem is compared`,
		"mem > 9999999999999999999":     "write a whole number, with which label mem is compared",
		"mem >= 4":                      `at byte 6, "= 4": write a whole number`,
		"-a":                            `label "-a": a key has letters, digits and ._-/`,
		"a-":                            `label "a-": a key`,
		"a=" + strings.Repeat("x", 254): "of label a: a value of a condition has at most 253 bytes",
		"zone in (a,b), ünder":          `write the key of a label`,
		strings.Repeat("x", maxWhere+1): "a condition of 16385 bytes, at most 16384 are allowed",
		"a in (" + strings.Repeat("b,", maxValues) + "b)": "requirements and values, at most 4096 are allowed",
	} {
		if _, err := ParseWhere(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %s", text, err, want)
		}
	}
}

// TestTaints reads and writes taints, tolerations and labels.
func TestTaints(t *testing.T) {
	for _, text := range []string{"spot:NoSchedule", "spot=yes:NoExecute", "a/b=c:PreferNoSchedule"} {
		if x, err := ParseTaint(text); err != nil || x.String() != text || x.Repels() == strings.Contains(text, "Prefer") {
			t.Errorf("%s: %v, %v", text, x, err)
		}
	}
	for text, want := range map[string]string{"spot": "effect NoSchedule", "spot:noschedule": "effect", "=a:NoExecute": "a key", "a=b c:NoExecute": "a value"} {
		if _, err := ParseTaint(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"": "", "*": "*", " a , b=c:NoExecute,a ": "a,b=c:NoExecute", "* : NoExecute": "*:NoExecute", "a=": "a=", "a:NoSchedule": "a:NoSchedule", ",": "",
	} {
		if x, err := ParseTolerations(text); err != nil || x.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, x, err, want)
		}
	}
	for text, want := range map[string]string{
		"a:b": `"b" is no effect`, "*=a": "a key", "a b": "a key", "a=ü": "a value", ":NoExecute": "a key",
		strings.TrimSuffix(strings.Repeat("x%d,", 300), ","): "a key",
	} {
		if _, err := ParseTolerations(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	many := ""
	for i := range maxTolerations + 1 {
		many += fmt.Sprintf("k%d,", i)
	}
	if _, err := ParseTolerations(many); err == nil || !strings.Contains(err.Error(), "257 tolerations") {
		t.Error(err)
	}
	if l, err := ParseLabel(" a = b "); err != nil || l.String() != "a=b" {
		t.Error(l, err)
	}
	if _, err := ParseLabel("a"); err == nil {
		t.Error("no error")
	}
}

// TestTolerate is the table of Kubernetes: an empty key matches all, an empty effect
// every effect, and a value counts only where it is given.
func TestTolerate(t *testing.T) {
	spot, other := Taint{"spot", "yes", NoSchedule}, Taint{"x", "", NoExecute}
	for text, want := range map[string][2]bool{
		"": {false, false}, "spot": {true, false}, "*": {true, true}, "spot=yes": {true, false}, "spot=no": {false, false}, "spot:NoSchedule": {true, false},
		"spot:NoExecute": {false, false}, "*:NoExecute": {false, true}, "spot,x:NoExecute": {true, true}, "x=": {false, true},
	} {
		tol, err := ParseTolerations(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{tol.Tolerate([]Taint{spot}), tol.Tolerate([]Taint{other})}; got != want || tol.Tolerate([]Taint{spot, other}) != (want[0] && want[1]) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if !(Tolerations)(nil).Tolerate([]Taint{{"spot", "", PreferNoSchedule}}) {
		t.Error("PreferNoSchedule repels")
	}
}

// draw makes a condition.
func draw(t *rapid.T) (w Where) {
	key := rapid.SampledFrom([]string{"a", "b", "c/d"})
	value := rapid.SampledFrom([]string{"", "x", "y", "7", "-1"})
	for range rapid.IntRange(0, 3).Draw(t, "alternatives") {
		var all []Requirement
		for range rapid.IntRange(1, 3).Draw(t, "requirements") {
			r := Requirement{Key: key.Draw(t, "key"), Op: rapid.SampledFrom([]Op{In, NotIn, Exists, DoesNotExist, Gt, Lt}).Draw(t, "op")}
			switch r.Op {
			case In, NotIn:
				r.Values = rapid.SliceOfN(value, 1, 3).Draw(t, "values")
			case Gt, Lt:
				r.Number = rapid.Int64Range(-2, 8).Draw(t, "number")
			}
			all = append(all, r)
		}
		w = append(w, all)
	}
	return w
}

// TestWhere: a condition that is written and read again holds on the same nodes, as the
// definition in Kubernetes has it, and its text is canonical.
func TestWhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		read, err := ParseWhere(w.String())
		if err != nil {
			t.Fatalf("%q: %v", w.String(), err)
		}
		again, err := ParseWhere(read.String())
		if err != nil || again.String() != read.String() {
			t.Fatalf("%q, then %q, %v", read.String(), again.String(), err)
		}
		shuffled := slices.Clone(w)
		slices.Reverse(shuffled)
		if other, _ := ParseWhere(shuffled.String()); other.String() != read.String() {
			t.Fatalf("%q in another order is %q", read.String(), other.String())
		}
		labels := map[string]string{}
		for _, key := range []string{"a", "b", "c/d"} {
			if v := rapid.SampledFrom([]string{"none", "", "x", "y", "7", "-1"}).Draw(t, key); v != "none" {
				labels[key] = v
			}
		}
		value := func(key string) (string, bool) { v, ok := labels[key]; return v, ok }
		if got, want := read.Holds(value), holds(w, labels); got != want {
			t.Fatalf("%q on %v: %v, want %v", read.String(), labels, got, want)
		}
	})
}

// holds is Where.Holds, word by word from the documentation of Kubernetes.
func holds(w Where, labels map[string]string) bool {
	for _, all := range w {
		met := 0
		for _, r := range all {
			v, has := labels[r.Key]
			n, err := strconv.Atoi(v)
			in := false
			for _, x := range r.Values {
				in = in || has && x == v
			}
			if r.Op == In && in || r.Op == NotIn && !in || r.Op == Exists && has || r.Op == DoesNotExist && !has ||
				r.Op == Gt && err == nil && n > int(r.Number) || r.Op == Lt && err == nil && n < int(r.Number) {
				met++
			}
		}
		if met == len(all) {
			return true
		}
	}
	return len(w) == 0
}

// FuzzParseWhere: no text makes the parser fail, and what it reads it reads again.
func FuzzParseWhere(f *testing.F) {
	for _, seed := range []string{"zone in (a,b), gpu-mem > 40, !spot", "a | b=c", `x not in ("")`, "a<-9223372036854775808", "!", "a in ("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWhere(text)
		if err != nil {
			return
		}
		if again, err := ParseWhere(w.String()); err != nil || again.String() != w.String() {
			t.Errorf("%q is %q, and that %q, %v", text, w.String(), again.String(), err)
		}
		tol, err := ParseTolerations(text)
		if again, e := ParseTolerations(tol.String()); err == nil && (e != nil || again.String() != tol.String()) {
			t.Errorf("%q is %q, and that %q, %v", text, tol.String(), again.String(), e)
		}
	})
}
