package watch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Write is one write that the API server has answered.
type Write struct {
	At          time.Time
	User        string // who asked
	Agent       string // with which program: its user agent
	Verb        string // create, update, patch, delete, deletecollection
	Resource    string // pods, or jobs.batch
	Subresource string // binding; empty: the object itself
	Namespace   string
	Name        string // may be empty where the server gave the name
	Code        int    // of the answer
}

// Kind is the write without whom it concerns: "create pods/binding", "patch jobs.batch".
func (w Write) Kind() string {
	if w.Subresource == "" {
		return w.Verb + " " + w.Resource
	}
	return w.Verb + " " + w.Resource + "/" + w.Subresource
}

// OK tells whether the write took place.
func (w Write) OK() bool { return w.Code >= 200 && w.Code < 300 }

// event is a line of an audit log, as far as it is read.
//
// Source: audit.k8s.io/v1, Event.
type event struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	Agent  string `json:"userAgent"`
	Object struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Group       string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	At time.Time `json:"requestReceivedTimestamp"`
}

// Audit reads the writes that an audit log has so far. A last line without its end is
// left out; errors name the line.
func Audit(path string) ([]Write, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Write
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if e.Stage != "ResponseComplete" || slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
			continue
		}
		w := Write{
			At: e.At, User: e.User.Username, Agent: e.Agent, Verb: e.Verb, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
			Namespace: e.Object.Namespace, Name: e.Object.Name, Code: e.Response.Code,
		}
		if e.Object.Group != "" {
			w.Resource += "." + e.Object.Group
		}
		if e.Impersonated != nil {
			w.User = e.Impersonated.Username
		}
		out = append(out, w)
	}
}

// By are the writes of a user.
func By(writes []Write, user string) []Write {
	var out []Write
	for _, w := range writes {
		if w.User == user {
			out = append(out, w)
		}
	}
	return out
}

// Count counts the writes that took place, by kind.
func Count(writes []Write) map[string]int {
	out := map[string]int{}
	for _, w := range writes {
		if w.OK() {
			out[w.Kind()]++
		}
	}
	return out
}

// Outside lists the writes whose kind is not among those that are allowed, also those that
// the API server refused.
func Outside(writes []Write, allowed ...string) []string {
	var out []string
	for _, w := range writes {
		if !slices.Contains(allowed, w.Kind()) {
			out = append(out, fmt.Sprintf("%s wrote outside its list: %s %s/%s, answered %d", w.User, w.Kind(), w.Namespace, w.Name, w.Code))
		}
	}
	return out
}

// wrote lists the writes of a user to pods of others, also those that were refused.
func (s *state) wrote(writes []Write, user string) []string {
	var out []string
	for _, w := range By(writes, user) {
		scheduler, foreign := s.foreign[w.Namespace+"/"+w.Name]
		if foreign && strings.HasPrefix(w.Resource+"/", "pods/") {
			out = append(out, fmt.Sprintf("%s touched pod %s/%s of scheduler %q: %s, answered %d", user, w.Namespace, w.Name, scheduler, w.Kind(), w.Code))
		}
	}
	return out
}
