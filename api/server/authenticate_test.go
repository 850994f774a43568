package server

import (
	"context"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

// TestAuthenticate: a token that is none of the configuration is shown to the authenticator,
// which cannot make its bearer a user of this machine.
func TestAuthenticate(t *testing.T) {
	asked := 0
	r := start(t, func(c *Config) {
		c.TCP = &TCP{Addr: "127.0.0.1:0", Authenticate: func(_ context.Context, token string) (Caller, error) {
			asked++
			if token != "good" {
				return Caller{}, api.Refuse(api.NoToken, "nobody knows it")
			}
			return Caller{User: "ann", Local: true, Operator: true}, nil
		}}
	})
	ask := func(token string) error {
		c, err := client.New("http://"+r.Addr().String(), token, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Fsck(t.Context(), false) // which is for operators
		return err
	}
	if err := ask("good"); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	refused(t, ask("bad"), api.NoToken, "nobody knows it")
	refused(t, ask(""), api.NoToken, "a token is needed")
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
