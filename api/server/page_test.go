package server

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// A list is asked for in pages, each of which says where the next one begins.
func TestPages(t *testing.T) {
	r := start(t, nil)
	for range 5 {
		r.fake.add("anna", 1)
	}
	var have []string
	after := ""
	for range 4 {
		code, body := r.ask(t, "GET", "/v1/jobs?page=2&after="+url.QueryEscape(after), "")
		var list JobList
		if err := json.Unmarshal([]byte(body), &list); code != 200 || err != nil || len(list.Jobs) > 2 {
			t.Fatalf("%d %s", code, body)
		}
		for _, j := range list.Jobs {
			have = append(have, j.ID)
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if got := strings.Join(have, " "); got != "1 2 3 4 5" || after != "" {
		t.Errorf("pages have %s, and then %q", got, after)
	}
	for query, word := range map[string]string{"after=17": "after", "page=2&after=17": "no place in a list", "page=2&limit=3": "exclude each other", "page=10001": "page", "page=-1": "page"} {
		if code, body := r.ask(t, "GET", "/v1/jobs?"+query, ""); code != 400 || !strings.Contains(body, word) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}
