// SPDX-License-Identifier: Apache-2.0
//
// box_question: what the Python side of a box (python/network.py) asks the broker over UDP,
// 127.0.0.1:54, so that the exception that a library raises explains a refusal. Security does not
// depend on it: code that does not ask is judged in the same way and sees a plain error.
//
// A question and its answer are one datagram each, at most QUESTION_MAX bytes of UTF-8 text, words
// between single blanks.  Questions:
//   why NAME                   why did the look-up of NAME fail?
//   connect ADDRESS PORT wait  code is about to connect: the broker dials now, and the connection
//                              that follows gets the result
//   connect ADDRESS PORT now   the same without waiting for the far side
//   taken PORT                 does the broker listen there, or code of the box?  ok: the broker
//   closed PORT                the connection from this port of the box was reset: by the broker,
//                              and why?
//   note udp ADDRESS PORT      code tried what boxes cannot do: an event of layer "box"
//   note raw FAMILY TYPE PROTOCOL
// Answers:
//   ok                         go on
//   no ERRNO TEXT              the errno for the exception, and a sentence for people: what
//                              happened, by which rule, what to do

#ifndef CONSTRICTOR_BROKER_BOX_QUESTION_H
#define CONSTRICTOR_BROKER_BOX_QUESTION_H

enum { QUESTION_PORT = 54, QUESTION_MAX = 1024 };

#endif
