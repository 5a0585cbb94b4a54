#!/bin/bash
# A worker is ready when one can log in.
exec ssh -q -o BatchMode=yes -o ConnectTimeout=2 localhost true
