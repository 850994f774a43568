package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/fifo"
	"github.com/norn-scheduler/norn/policy/rmixer"
)

// TestParseChoice: what is read is written as it was, and what cannot be read
// says why.
func TestParseChoice(t *testing.T) {
	for text, want := range map[string]Choice{
		"fifo":               {Policy: "fifo"},
		" fifo(mode=easy) ":  {Policy: "fifo", Settings: []Setting{{Name: "mode", Value: "easy"}}},
		"t(limits=1,2,up=3)": {Policy: "t", Settings: []Setting{{Name: "limits", Value: "1,2"}, {Name: "up", Value: "3"}}},
		"t( a = 1 , 2 )":     {Policy: "t", Settings: []Setting{{Name: "a", Value: "1,2"}}},
	} {
		got, err := ParseChoice(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseChoice(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q is written %q and read as %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{"fifo(mode=easy": "parenthesis", "fifo(easy)": "fifo(param=value)", "fifo()": "fifo(param=value)"} {
		if _, err := ParseChoice(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestChoices: lists of policies and settings for all of them, and what is wrong with
// them.
// TestListOf: a list of policies in a file is what it is on a line.
func TestListOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lists")
	for held, want := range map[string]string{
		"srtf\n":                             "srtf",
		"# of spring\nfifo\n\n  srtf\n":      "fifo,srtf",
		"fifo,\nsrtf":                        "fifo,srtf",
		"slurm(accounts=a:1,\n  b:2\n),fifo": "slurm(accounts=a:1,b:2),fifo",
		"slurm(\naccounts=a:1)":              "slurm(accounts=a:1)",
		"# nothing\n":                        "",
	} {
		if err := os.WriteFile(file, []byte(held), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ListOf("@" + file)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, want %q; %v", held, got, want, err)
		}
		if more, err := ListOf("las, @" + file + ",fifo"); more != "las,"+want+",fifo" && want != "" {
			t.Errorf("in a list: %q, %v", more, err)
		}
		if plain, err := ListOf(held); plain != held || err != nil {
			t.Errorf("%q is %q, %v", held, plain, err)
		}
	}
	if _, err := ListOf("@" + file + ".none"); err == nil || !strings.Contains(err.Error(), "lists.none") {
		t.Errorf("%v", err)
	}
}

// TestLabel: labels are short enough for the name of a folder, and differ where choices do.
func TestLabel(t *testing.T) {
	long := func(last string) Choice {
		return Choice{Policy: "slurm", Settings: []Setting{{Name: "accounts", Value: strings.Repeat("ü:1,", 100) + last}}}
	}
	a, b := long("a").Label(), long("b").Label()
	if a == b || a != long("a").Label() || len(a) > 160 || !utf8.ValidString(a) || !strings.HasPrefix(a, "slurm(accounts=ü:1,ü:1,") {
		t.Errorf("labels %q and %q", a, b)
	}
	if c := (Choice{Policy: "tiresias", Settings: []Setting{{Name: "limits", Value: "3600,36000"}}}); c.Label() != c.String() {
		t.Errorf("label %q", c.Label())
	}
}

func TestChoices(t *testing.T) {
	all, err := ParseChoices("fifo,tiresias(limits=1,2),tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"tiresias.limits=7", "tiresias.promote=2"} {
		if err := Assign(all, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckChoices(all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.String())
	}
	if got, want := strings.Join(names, " "), "fifo tiresias(limits=1,2,promote=2) tiresias(limits=7,promote=2)"; got != want {
		t.Errorf("have %s, want %s", got, want)
	}
	one := []Choice{{Policy: "fifo", Settings: []Setting{{Name: "mode", Value: "skip"}}}}
	if err := Assign(one, "fifo.mode=easy"); err != nil || one[0].String() != "fifo(mode=skip,mode=easy)" {
		t.Errorf("%s, %v", one[0], err)
	}
	for text, want := range map[string]string{
		"fifo.mode": "write policy.param=value", "fifo=1": "write policy.param=value", "fofi.mode=easy": "policy fofi is not among those that are run (fifo, tiresias, tiresias)",
	} {
		if err := Assign(all, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for list, want := range map[string]string{
		"fifo,fifo": "policy fifo is named twice", "fofi": "unknown policy", "fifo(mode=quick)": "policy fifo: ", "fifo(mode": "parenthesis",
	} {
		all, err := ParseChoices(list)
		if err == nil {
			err = CheckChoices(all)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// TestOwn: a policy that a caller brings is made as those of the table are, and goes
// before one of the table that has its name.
func TestOwn(t *testing.T) {
	mine := policy.Entry{Name: "mine", Acts: policy.Shares, New: func() policy.Config { return fifo.NewConfig() }}
	fake := policy.Entry{Name: "srtf", Title: "a fake", New: func() policy.Config { return rmixer.NewConfig() }}
	all, err := ParseChoices("mine(mode=easy),srtf,fifo", mine, fake)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckChoices(all); err != nil {
		t.Fatal(err)
	}
	if !all[0].Shares() || all[0].String() != "mine(mode=easy)" || all[0].String() != Own(mine, Setting{Name: "mode", Value: "easy"}).String() {
		t.Errorf("%+v", all[0])
	}
	if e, err := all[1].Entry(); err != nil || e.Title != "a fake" {
		t.Errorf("%+v, %v", e, err)
	}
	if all[2].Own != nil {
		t.Errorf("%+v", all[2])
	}
	if err := CheckChoices([]Choice{{Policy: "mine"}}); err == nil || !strings.Contains(err.Error(), `unknown policy "mine"`) {
		t.Errorf("%v", err)
	}
	if err := CheckChoices([]Choice{Own(mine, Setting{Name: "speed", Value: "1"})}); err == nil || !strings.Contains(err.Error(), "policy mine: ") {
		t.Errorf("%v", err)
	}
}

// TestVariants: a list of values makes a variant of each, and a value that is a list itself
// stays one.
func TestVariants(t *testing.T) {
	for text, want := range map[string]string{
		"fifo,srtf":                            "fifo srtf",
		"tiresias(promote=2|8)":                "tiresias(promote=2) tiresias(promote=8)",
		"tiresias(promote=2,8)":                "tiresias(promote=2) tiresias(promote=8)",
		"tiresias(limits=3600,36000)":          "tiresias(limits=3600,36000)",
		"tiresias(limits=500|3600,36000)":      "tiresias(limits=500) tiresias(limits=3600,36000)",
		"tiresias(limits=5|6,promote=2,8),las": "tiresias(limits=5,promote=2) tiresias(limits=5,promote=8) tiresias(limits=6,promote=2) tiresias(limits=6,promote=8) las",
		"tiresias(promote=2,many)":             "tiresias(promote=2,many)", // which Make refuses
		"nobody(x=1,2)":                        "nobody(x=1,2)",
	} {
		all, err := ParseChoices(text)
		if err != nil {
			t.Fatal(err)
		}
		if all, err = Variants(all); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range all {
			names = append(names, c.String())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	many := "tiresias(" + strings.Repeat("promote=1|2|3|4|5|6|7|8|9|10,", 5) + "limits=5)"
	all, err := ParseChoices(many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Variants(all); err == nil || !strings.Contains(err.Error(), "more than 1000 variants") {
		t.Error(err)
	}
}

// TestParseChoiceFirst: the value of the first parameter of a policy of the caller's own may
// be any text, and stands without its name.
func TestParseChoiceFirst(t *testing.T) {
	for text, want := range map[string][]Setting{
		"exec":                                        nil,
		"exec(./mine)":                                {{Name: "command", Value: "./mine"}},
		"exec( python3 mine.py --x=1 -y=2 )":          {{Name: "command", Value: "python3 mine.py --x=1 -y=2"}},
		"exec(./mine --list a,b=c,budget=2s)":         {{Name: "command", Value: "./mine --list a,b=c"}, {Name: "budget", Value: "2s"}},
		"exec(command=./mine,place=best-fit)":         {{Name: "command", Value: "./mine"}, {Name: "place", Value: "best-fit"}},
		"exec(budget=2s,command=./mine)":              {{Name: "budget", Value: "2s"}, {Name: "command", Value: "./mine"}},
		"exec(./mine,tries=1,budget=1m,elastic=true)": {{Name: "command", Value: "./mine"}, {Name: "tries", Value: "1"}, {Name: "budget", Value: "1m"}, {Name: "elastic", Value: "true"}},
	} {
		c, err := ParseChoice(text, foreign.Entry())
		if err != nil || !slices.Equal(c.Settings, want) {
			t.Errorf("%s: %q, %v", text, c.Settings, err)
			continue
		}
		again, err := ParseChoice(c.String(), foreign.Entry())
		if err != nil || !slices.Equal(again.Settings, want) {
			t.Errorf("%s is written as %s, which is read as %q, %v", text, c, again.Settings, err)
		}
	}
	told := ChoiceOf(&eventlog.Header{Policy: "exec", Settings: []Setting{{Name: "command", Value: "./mine"}, {Name: "budget", Value: "2s"}}})
	if _, err := told.Make(); told.String() != "exec(./mine,budget=2s)" || !errors.Is(err, ErrUnnamed) {
		t.Errorf("a log of %s is made into a policy: %v", told, err)
	}
	for text, resizes := range map[string]bool{"exec(./mine,elastic=true)": true, "exec(./mine)": false} {
		if c, err := ParseChoice(text, foreign.Entry()); err != nil || c.Resizes() != resizes {
			t.Errorf("%s: it resizes %v, %v", text, c.Resizes(), err)
		}
	}
	for _, text := range []string{"exec", "exec(./mine)"} {
		if _, err := ParseChoice(text); !errors.Is(err, ErrUnnamed) {
			t.Errorf("%s where programs are no policies: %v", text, err)
		}
	}
}
